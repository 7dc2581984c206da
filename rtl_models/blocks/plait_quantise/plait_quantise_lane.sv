// One element of a beat: its code, three steps after the number.
(* keep_hierarchy *)
module plait_quantise_lane (
    input  logic        clk_i,
    input  logic        advance_i,
    input  logic [31:0] number_i,
    input  logic [31:0] factor_i,
    input  logic [7:0]  format_i,     // row_format_e, two steps after the number
    output logic [31:0] code_o,       // in the lowest bits
    output logic        is_finite_o
);
    logic [31:0] product;
    logic        is_e5m2, is_finite;
    logic [7:0]  fp8;
    assign is_e5m2 = format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_F32 || format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    assign is_finite = product[30:23] != 8'hff;  // as the number was, since factors bring all within FP8's range
    plait_fp32_multiply u_product (.clk_i, .advance_i, .a_i(number_i), .b_i(factor_i), .product_o(product));
    plait_fp8_encode u_fp8 (.is_e5m2_i(is_e5m2), .number_i(product), .code_o(fp8));

    logic [15:0] bf16;
    plait_bf16_round u_bf16 (.number_i(product), .bf16_o(bf16));

    always_ff @(posedge clk_i) if (advance_i) begin
        is_finite_o <= is_finite;
        case (format_i)
            plait_regmap_pkg::ROW_FORMAT_BF16: code_o <= {16'b0, bf16};
            plait_regmap_pkg::ROW_FORMAT_F32: code_o <= product;
            default: code_o <= {24'b0, is_finite ? fp8 : 8'h7f};
        endcase
    end
endmodule
