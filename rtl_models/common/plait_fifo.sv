// A queue. What is pushed can be seen in the next cycle.
module plait_fifo #(
    parameter int unsigned WORDS = 4,
    parameter int unsigned BITS = 32,
    localparam int unsigned PLACE_BITS = $clog2(WORDS)
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    output logic            can_push_o,
    input  logic            push_i,  // only when it can
    input  logic [BITS-1:0] data_i,
    output logic            can_pop_o,
    input  logic            pop_i,   // only when it can
    output logic [BITS-1:0] data_o   // the oldest, when there is one
);
    if (WORDS < 2 || WORDS != 1 << $clog2(WORDS)) $fatal(1, "plait_fifo: WORDS is %0d, expected a power of two, 2 at least", WORDS);

    logic [BITS-1:0]       words [WORDS];
    logic [PLACE_BITS-1:0] first_q, next_q;
    logic [PLACE_BITS:0]   count_q;

    assign can_push_o = count_q != (PLACE_BITS + 1)'(WORDS);
    assign can_pop_o = count_q != '0;
    assign data_o = words[first_q];

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            first_q <= '0;
            next_q <= '0;
            count_q <= '0;
        end else begin
            if (push_i) next_q <= next_q + 1'b1;
            if (pop_i) first_q <= first_q + 1'b1;
            count_q <= count_q + (PLACE_BITS + 1)'(push_i) - (PLACE_BITS + 1)'(pop_i);
        end
        if (push_i) words[next_q] <= data_i;
    end
endmodule
