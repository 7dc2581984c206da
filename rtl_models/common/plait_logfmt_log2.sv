// The binary logarithm of a finite BF16 magnitude that is not zero: its exponent and the rest, in units of 2^-25, rounded down. Also the
// magnitude with a hidden one, subnormal or not.
module plait_logfmt_log2 (
    input  logic [14:0]       magnitude_i,
    output logic signed [8:0] exponent_o,
    output logic [6:0]        fraction_o,
    output logic [24:0]       log2_o        // of 1 + fraction_o / 128
);
    /* verilator coverage_off */  // runs at elaboration
    // A bit for each squaring. What 62 bits behind the point lose in 25 of them does not reach the last bit.
    function automatic logic [128*25-1:0] logarithms();
        logic [127:0] x;
        for (int unsigned i = 0; i < 128; i = i + 1) begin
            x = (128'd128 + 128'(i)) << 55;
            for (int unsigned j = 0; j < 25; j = j + 1) begin
                x = (x * x) >> 62;
                logarithms[25*i+24-j] = x[63];
                if (x[63]) x = x >> 1;
            end
        end
    endfunction
    /* verilator coverage_on */
    localparam logic [128*25-1:0] LOG2 = logarithms();

    // A subnormal is shifted until its highest bit is the hidden one.
    logic [6:0]        shifted;
    logic signed [8:0] exponent;
    always_comb begin
        shifted = magnitude_i[6:0];
        exponent = {1'b0, magnitude_i[14:7]};
        if (magnitude_i[14:7] == '0) begin
            exponent = 9'sd0;
            for (int unsigned i = 7; i > 0; i = i - 1)
                if (magnitude_i[6:0] >> i == '0 && magnitude_i[i-1]) begin
                    shifted = magnitude_i[6:0] << (8 - i);
                    exponent = 9'(i) - 9'sd7;
                end
        end
    end
    assign exponent_o = exponent;
    assign fraction_o = shifted;
    assign log2_o = LOG2[25*shifted +: 25];
endmodule
