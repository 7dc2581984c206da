// The index of the one bit that is set; zero when none is.
module plait_onehot_index #(
    parameter int unsigned BITS = 8,
    localparam int unsigned INDEX_BITS = $clog2(BITS)
) (
    input  logic [BITS-1:0]       onehot_i,
    output logic [INDEX_BITS-1:0] index_o
);
    if (BITS < 2) $fatal(1, "plait_onehot_index: BITS is %0d, expected at least 2", BITS);

    /* verilator coverage_off */  // runs at elaboration
    // All places whose number has this bit.
    function automatic logic [BITS-1:0] places_with(input int unsigned bit_number);
        for (int unsigned i = 0; i < BITS; i = i + 1) places_with[i] = 1'(i >> bit_number);
    endfunction
    /* verilator coverage_on */

    for (genvar i = 0; i < INDEX_BITS; i = i + 1) begin : g_index
        localparam logic [BITS-1:0] PLACES = places_with(i);
        assign index_o[i] = |(onehot_i & PLACES);
    end
endmodule
