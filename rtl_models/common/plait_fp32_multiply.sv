// The product of two FP32 numbers, rounded to nearest even, two steps later; a NaN is 0x7fc00000.
module plait_fp32_multiply (
    input  logic        clk_i,
    input  logic [31:0] a_i,
    input  logic [31:0] b_i,
    output logic [31:0] product_o
);
    logic [23:0]        a, b;
    logic signed [10:0] exponent;
    logic               has_nan, has_infinity, has_zero;
    assign a = {a_i[30:23] != '0, a_i[22:0]};
    assign b = {b_i[30:23] != '0, b_i[22:0]};
    assign exponent = 11'(a_i[30:23]) + 11'(a_i[30:23] == '0) + 11'(b_i[30:23]) + 11'(b_i[30:23] == '0) - 11'd127;
    assign has_nan = a_i[30:0] > 31'h7f800000 || b_i[30:0] > 31'h7f800000;
    assign has_infinity = a_i[30:23] == 8'hff || b_i[30:23] == 8'hff;
    assign has_zero = a_i[30:0] == '0 || b_i[30:0] == '0;

    logic [47:0]        significand_q;
    logic signed [10:0] exponent_q;
    logic               sign_q, is_nan_q, is_infinite_q;
    logic [31:0]        rounded;
    plait_fp32_round u_round (
        .sign_i(sign_q), .exponent_i(exponent_q), .significand_i(significand_q), .number_o(rounded));

    always_ff @(posedge clk_i) begin
        significand_q <= 48'(a) * 48'(b);
        exponent_q <= exponent;
        sign_q <= a_i[31] ^ b_i[31];
        is_nan_q <= has_nan || (has_infinity && has_zero);
        is_infinite_q <= has_infinity;
        product_o <= is_nan_q ? 32'h7fc00000 : is_infinite_q ? {sign_q, 31'h7f800000} : rounded;
    end
endmodule
