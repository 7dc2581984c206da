// A linear map over bits: the sum modulo 2 of the columns whose input bits are set. Column i lies at bit OUTPUTS * i of COLUMNS.
module plait_linear_map #(
    parameter int unsigned INPUTS = 32,
    parameter int unsigned OUTPUTS = 32,
    parameter logic [INPUTS*OUTPUTS-1:0] COLUMNS = '0
) (
    input  logic [INPUTS-1:0]  bits_i,
    output logic [OUTPUTS-1:0] bits_o
);
    if (INPUTS < 1 || OUTPUTS < 1) $fatal(1, "plait_linear_map: %0d inputs and %0d outputs, expected one at least", INPUTS, OUTPUTS);

    /* verilator coverage_off */  // runs at elaboration
    // The inputs that output `number` depends on.
    function automatic logic [INPUTS-1:0] row(input int unsigned number);
        for (int unsigned i = 0; i < INPUTS; i = i + 1) row[i] = COLUMNS[OUTPUTS*i+number];
    endfunction
    /* verilator coverage_on */

    for (genvar i = 0; i < OUTPUTS; i = i + 1) begin : g_output
        localparam logic [INPUTS-1:0] ROW = row(i);
        assign bits_o[i] = ^(bits_i & ROW);
    end
endmodule
