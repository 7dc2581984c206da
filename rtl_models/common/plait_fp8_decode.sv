// FP8 (OCP OFP8) as FP32, exactly.
module plait_fp8_decode (
    input  logic        is_e5m2_i,  // else E4M3
    input  logic [7:0]  code_i,
    output logic [31:0] number_o
);
    // Both as an exponent of five bits and three of a fraction. A subnormal's leading bit becomes the hidden one.
    logic [4:0] exponent;
    logic [2:0] fraction, leading;
    logic [7:0] normal, subnormal;
    logic       is_nan;
    assign {exponent, fraction} = is_e5m2_i ? {code_i[6:0], 1'b0} : {1'b0, code_i[6:0]};
    assign leading = fraction[2] ? {fraction[1:0], 1'b0} : fraction[1] ? {fraction[0], 2'b0} : '0;
    assign normal = 8'(exponent) + (is_e5m2_i ? 8'd112 : 8'd120);
    assign subnormal = (is_e5m2_i ? 8'd110 : 8'd118) + (fraction[2] ? 8'd2 : 8'(fraction[1]));
    assign is_nan = is_e5m2_i ? code_i[6:0] > 7'h7c : code_i[6:0] == 7'h7f;
    always_comb begin
        number_o = {code_i[7], normal, fraction, 20'b0};
        if (is_nan) number_o = 32'h7fc00000;
        else if (is_e5m2_i && code_i[6:0] == 7'h7c) number_o = {code_i[7], 31'h7f800000};
        else if (exponent == '0) number_o = {code_i[7], fraction == '0 ? '0 : {subnormal, leading, 20'b0}};
    end
endmodule
