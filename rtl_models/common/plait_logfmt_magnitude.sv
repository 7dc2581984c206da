// The magnitude of a LogFMT code, as two factors: min * 2^whole and 2^fraction of index * step, all in FP32, 18 steps after the index.
module plait_logfmt_magnitude (
    input  logic        clk_i,
    input  logic [8:0]  index_i,      // codes above the minimum's
    input  logic [31:0] step_i,       // FP32
    input  logic [14:0] min_i,        // BF16; 16 steps after the index
    output logic [31:0] base_o,
    output logic [31:0] power_o
);
    localparam int unsigned DEGREE = 5;
    localparam int unsigned WAIT = 3 * DEGREE - 1;  // until the base is made

    // Octaves above the minimum, whole ones and the rest.
    logic [31:0] index, octaves, rest, fraction_q;
    logic [28:0] fixed;  // 23 bits behind the point
    logic [5:0]  whole_q [WAIT];
    plait_fp32_round #(.BITS(26)) u_index (
        .sign_i(1'b0), .exponent_i(11'sd134), .significand_i({index_i, 17'b0}), .number_o(index));
    plait_fp32_multiply u_octaves (.clk_i, .a_i(index), .b_i(step_i), .product_o(octaves));
    assign fixed = octaves[30:23] < 8'd127 ? '0 : {5'b0, 1'b1, octaves[22:0]} << (octaves[30:23] - 8'd127);
    plait_fp32_round #(.BITS(26)) u_rest (
        .sign_i(1'b0), .exponent_i(11'sd125), .significand_i({fixed[22:0], 3'b0}), .number_o(rest));
    always_ff @(posedge clk_i) begin
        fraction_q <= octaves[30:23] < 8'd127 ? octaves : rest;
        whole_q[0] <= fixed[28:23];
        for (int unsigned i = 1; i < WAIT; i = i + 1) whole_q[i] <= whole_q[i-1];
    end
    plait_fp32_multiply u_base (
        .clk_i, .a_i({1'b0, min_i, 16'b0}), .b_i({1'b0, 8'd127 + 8'(whole_q[WAIT-1]), 23'b0}), .product_o(base_o));

    // 2^fraction, by the polynomial of firmware/engines' exp2_fraction(). Each of its terms takes three steps.
    localparam logic [DEGREE*32-1:0] TERMS = {32'h3f800000, 32'h3f317264, 32'h3e75ec50, 32'h3d64a220, 32'h3c134ef8};
    localparam logic [31:0] FIRST = 32'h3af65378;
    for (genvar i = 0; i < DEGREE; i = i + 1) begin : g_term
        logic [31:0] sum, product, next, next_q, fraction;
        if (i == 0) begin : g_first
            assign sum = FIRST;
            assign fraction = fraction_q;
        end else begin : g_next
            logic [31:0] first_q, second_q, third_q;
            always_ff @(posedge clk_i) begin
                first_q <= g_term[i-1].fraction;
                second_q <= first_q;
                third_q <= second_q;
            end
            assign sum = g_term[i-1].next_q;
            assign fraction = third_q;
        end
        plait_fp32_multiply u_product (.clk_i, .a_i(sum), .b_i(fraction), .product_o(product));
        plait_fp32_add u_sum (.a_i(product), .b_i(TERMS[32*i +: 32]), .sum_o(next));
        always_ff @(posedge clk_i) next_q <= next;
    end
    assign power_o = g_term[DEGREE-1].next_q;
endmodule
