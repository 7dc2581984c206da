// An FP32 number as FP8 (OCP OFP8): rounded to nearest even, saturating; a NaN becomes 0x7f.
module plait_fp8_encode (
    input  logic        is_e5m2_i,  // else E4M3
    input  logic [31:0] number_i,
    output logic [7:0]  code_o
);
    // A normal number keeps three or two bits of the fraction. The exponent's distance is taken off after rounding.
    logic [31:0] magnitude, rounded;
    logic [10:0] normal;
    logic [6:0]  largest, finite;
    assign magnitude = {1'b0, number_i[30:0]};
    assign rounded = magnitude + (is_e5m2_i ? 32'h000fffff + 32'(number_i[21]) : 32'h0007ffff + 32'(number_i[20]));
    assign normal = is_e5m2_i ? 11'(rounded >> 21) - 11'd448 : 11'(rounded >> 20) - 11'd960;
    assign largest = is_e5m2_i ? 7'h7b : 7'h7e;
    assign finite = normal > 11'(largest) ? largest : 7'(normal);

    // A subnormal one is a count of the smallest, which is 2^-9 or 2^-16.
    logic [7:0]  smallest_normal, below;
    logic [25:0] significand;
    logic [4:0]  right;
    logic [26:0] count;
    logic        up;
    assign smallest_normal = is_e5m2_i ? 8'd113 : 8'd121;
    assign below = smallest_normal - number_i[30:23];
    assign right = (below > 8'd5 ? 5'd5 : below[4:0]) + (is_e5m2_i ? 5'd21 : 5'd20);
    assign significand = {1'b0, number_i[30:23] != '0, number_i[22:0], 1'b0};
    assign count = {1'b0, significand >> right};  // twice
    assign up = count[0] && (count[1] || {1'b0, significand} != count << right);

    logic is_subnormal;
    assign is_subnormal = number_i[30:23] < smallest_normal;
    assign code_o = magnitude > 32'h7f800000 ? 8'h7f : {number_i[31], is_subnormal ? count[7:1] + 7'(up) : finite};
endmodule
