// Makes an FP32 number of a significand of any length: normalised, rounded to nearest even, subnormals kept, infinity beyond the largest.
module plait_fp32_round #(
    parameter int unsigned BITS = 48
) (
    input  logic               sign_i,
    input  logic signed [10:0] exponent_i,     // as in FP32, of the bit below the significand's highest
    input  logic [BITS-1:0]    significand_i,  // its last bit is also set for anything below it
    output logic [31:0]        number_o
);
    if (BITS < 26 || BITS > 64) $fatal(1, "plait_fp32_round: BITS is %0d, expected 26 .. 64", BITS);

    localparam int unsigned STEPS = $clog2(BITS);

    logic signed [10:0] exponent;
    logic [10:0]        below;
    logic [BITS-1:0]    shifted;
    logic               lost;
    assign below = 11'(-exponent_i);
    // Below the smallest exponent to the right, else to the left until the highest bit is set or the exponent is used up.
    always_comb begin
        lost = 1'b0;
        exponent = exponent_i;
        shifted = significand_i;
        if (exponent_i < 0) begin
            shifted = significand_i >> below;
            lost = shifted << below != significand_i;
        end
        for (int unsigned i = STEPS; i > 0; i = i - 1) begin
            if (exponent >= 11'sd1 <<< (i - 1) && shifted >> (BITS - (1 << (i - 1))) == '0) begin
                shifted = shifted << (1 << (i - 1));
                exponent = exponent - (11'sd1 <<< (i - 1));
            end
        end
    end

    logic [9:0]  field;
    logic        up;
    logic [32:0] rounded;
    assign field = shifted[BITS-1] ? 10'(exponent) + 10'd1 : '0;
    assign up = shifted[BITS-25] && (shifted[BITS-24] || lost || shifted[BITS-26:0] != '0);
    assign rounded = {field, shifted[BITS-2 -: 23]} + 33'(up);  // a carry out of the fraction goes where it belongs
    assign number_o = {sign_i, rounded[32:23] >= 10'd255 ? 31'h7f800000 : rounded[30:0]};
endmodule
