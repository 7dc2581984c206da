// What a queue pair's spray selector begins with: keys and places drawn from its seed. Begins when start_i is high; the results
// are there while done_o is, until they are taken.
module plait_spray_setup #(
    parameter int unsigned PLANES = 8,
    parameter int unsigned ENTROPIES = 256,
    localparam int unsigned PLANE_BITS = $clog2(PLANES),
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES),
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1),
    localparam int unsigned KEY_BITS = 28
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         start_i,
    input  logic                         take_i,
    input  logic [31:0]                  seed_i,        // these stay until the results are taken
    input  logic [COUNT_BITS-1:0]        planes_i,
    input  logic [INDEX_BITS:0]          entropies_i,
    input  logic [INDEX_BITS:0]          per_plane_i,
    output logic                         done_o,
    output logic [PLANE_BITS-1:0]        plane_o,       // used last
    output logic [INDEX_BITS-1:0]        index_o,       // to begin with
    output logic [PLANES*INDEX_BITS-1:0] cursors_o,
    output logic [PLANES*KEY_BITS-1:0]   keys_o
);

    // A number is drawn (two multiplications), then divided a bit a cycle; first the selector's own, then each plane's.
    localparam logic [2:0] IDLE = 3'd0;
    localparam logic [2:0] FIRST = 3'd1;
    localparam logic [2:0] SECOND = 3'd2;
    localparam logic [2:0] DIVIDE = 3'd3;
    localparam logic [2:0] DONE = 3'd4;

    logic [2:0]            step_q;
    logic [COUNT_BITS:0]   number_q;    // 0: the selector's own
    logic [31:0]           seed_q, value_q, product, drawn;
    logic [4:0]            bit_q;
    logic [INDEX_BITS-1:0] rest_q, plane_rest_q, rest, plane_rest;

    assign product = step_q == FIRST ? (value_q ^ (value_q >> 16)) * 32'h85EBCA6B : (value_q ^ (value_q >> 13)) * 32'hC2B2AE35;
    assign drawn = product ^ (product >> 16);

    function automatic logic [INDEX_BITS-1:0] divided(input logic [INDEX_BITS:0] dividend, input logic [INDEX_BITS:0] divisor);
        divided = INDEX_BITS'(dividend >= divisor ? dividend - divisor : dividend);
    endfunction

    assign rest = divided({rest_q, value_q[bit_q]}, number_q == '0 ? entropies_i : per_plane_i);
    assign plane_rest = divided({plane_rest_q, value_q[bit_q]}, (INDEX_BITS+1)'(planes_i));
    assign done_o = step_q == DONE;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            step_q <= IDLE;
        end else begin
            unique case (step_q)
                IDLE: if (start_i) step_q <= FIRST;
                FIRST: step_q <= SECOND;
                SECOND: step_q <= DIVIDE;
                DIVIDE: if (bit_q == '0) step_q <= number_q == (COUNT_BITS+1)'(planes_i) ? DONE : FIRST;
                default: if (take_i) step_q <= IDLE;
            endcase
        end
        if (step_q == IDLE) begin
            number_q <= '0;
            seed_q <= seed_i;
            value_q <= seed_i;
        end else if (step_q == FIRST) begin
            value_q <= product;
        end else if (step_q == SECOND) begin
            value_q <= drawn;
            bit_q <= 5'd31;
            rest_q <= '0;
            plane_rest_q <= '0;
            if (number_q != '0) keys_o[KEY_BITS*PLANE_BITS'(number_q - 1'b1) +: KEY_BITS] <= drawn[KEY_BITS-1:0];
        end else if (step_q == DIVIDE) begin
            bit_q <= bit_q - 1'b1;
            rest_q <= rest;
            plane_rest_q <= plane_rest;
            if (bit_q == '0) begin
                number_q <= number_q + 1'b1;
                seed_q <= seed_q + 32'h9E3779B9;
                value_q <= seed_q + 32'h9E3779B9;
                if (number_q == '0) begin
                    index_o <= rest;
                    plane_o <= plane_rest[PLANE_BITS-1:0];
                end else begin
                    cursors_o[INDEX_BITS*PLANE_BITS'(number_q - 1'b1) +: INDEX_BITS] <= rest;
                end
            end
        end
    end
endmodule
