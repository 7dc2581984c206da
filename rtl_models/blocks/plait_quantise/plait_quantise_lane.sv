// One element of a beat: its code, 27 steps after the number. Only LogFMT needs most of them.
(* keep_hierarchy *)
module plait_quantise_lane (
    input  logic        clk_i,
    input  logic        logfmt_clk_i,      // the same while there is LogFMT in the lane; may stand still while there is none

    input  logic [14:0] magnitude_i,       // LogFMT: as plait_quantise_logfmt says
    input  logic [31:0] log_min_i,
    input  logic [31:0] per_log_i,
    input  logic        index_is_10_i,
    input  logic [31:0] step_i,
    input  logic [14:0] base_min_i,
    input  logic        max_is_10_i,
    input  logic [14:0] max_i,
    input  logic [14:0] min_i,

    input  logic [31:0] number_i,          // FP32; after 24 steps
    input  logic [31:0] factor_i,
    input  logic [7:0]  format_i,          // row_format_e; after 26 steps
    output logic [31:0] code_o,            // in the lowest bits
    output logic        is_finite_o
);
    logic [31:0] product;
    logic        is_e5m2, is_finite;
    logic [7:0]  fp8;
    logic [15:0] bf16;
    assign is_e5m2 = format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_F32 || format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    assign is_finite = product[30:23] != 8'hff;  // as the number was, since factors bring all within FP8's range
    plait_fp32_multiply u_product (.clk_i, .a_i(number_i), .b_i(factor_i), .product_o(product));
    plait_fp8_encode u_fp8 (.is_e5m2_i(is_e5m2), .number_i(product), .code_o(fp8));
    plait_bf16_round u_bf16 (.number_i(product), .bf16_o(bf16));

    logic [9:0] logfmt_code;
    logic       is_10;
    assign is_10 = format_i == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    plait_quantise_logfmt u_logfmt (
        .clk_i(logfmt_clk_i), .magnitude_i, .log_min_i, .per_log_i, .index_is_10_i, .step_i, .base_min_i, .max_is_10_i,
        .max_i, .number_i(number_i[31:16]), .min_i, .code_is_10_i(is_10), .code_o(logfmt_code));

    logic [31:0] code_q;
    logic        is_logfmt_q;
    always_ff @(posedge clk_i) begin
        is_finite_o <= is_finite;
        is_logfmt_q <= is_10 || format_i == plait_regmap_pkg::ROW_FORMAT_LOGFMT8;
        case (format_i)
            plait_regmap_pkg::ROW_FORMAT_BF16: code_q <= {16'b0, bf16};
            plait_regmap_pkg::ROW_FORMAT_F32: code_q <= product;
            default: code_q <= {24'b0, is_finite ? fp8 : 8'h7f};
        endcase
    end
    assign code_o = is_logfmt_q ? {22'b0, logfmt_code} : code_q;
endmodule
