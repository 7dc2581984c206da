// A clock that runs only in cycles in which it is enabled. The enable comes from registers of `clk_i`, so that it is there while that is low.
module plait_clock_gate (
    input  logic clk_i,
    input  logic enable_i,
    output logic clk_o
);
    logic enabled;
    always_latch if (!clk_i) enabled = enable_i;
    assign clk_o = clk_i && enabled;
endmodule
