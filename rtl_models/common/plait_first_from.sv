// The first bit that is set from a place on, round the end: one bit; none when none is set.
module plait_first_from #(
    parameter int unsigned BITS = 8,
    localparam int unsigned INDEX_BITS = $clog2(BITS)
) (
    input  logic [BITS-1:0]       bits_i,
    input  logic [INDEX_BITS-1:0] from_i,
    output logic [BITS-1:0]       first_o
);
    if (BITS < 2) $fatal(1, "plait_first_from: BITS is %0d, expected at least 2", BITS);

    logic [BITS-1:0] after, looked_at;
    assign after = bits_i & ({BITS{1'b1}} << from_i);
    assign looked_at = after != '0 ? after : bits_i;
    assign first_o = looked_at & (~looked_at + 1'b1);
endmodule
