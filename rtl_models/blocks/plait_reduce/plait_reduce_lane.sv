// One element of a beat: its value from code and scale, times a weight, added to the sum. LogFMT's codes come 18 steps before the
// others, since they take that long to become two factors, as all others are at once.
(* keep_hierarchy *)
module plait_reduce_lane (
    input  logic        clk_i,
    input  logic        logfmt_clk_i,      // the same while there is LogFMT in the lane; may stand still while there is none

    input  logic        early_is_10_i,     // LogFMT-10, else LogFMT-8
    input  logic [8:0]  early_code_i,
    input  logic [31:0] early_step_i,
    input  logic [14:0] late_min_i,        // 16 steps after the early code

    input  logic [7:0]  format_i,          // row_format_e; 18 steps after the early code, as what follows
    input  logic [31:0] code_i,            // in the lowest bits
    input  logic [31:0] scale_i,           // FP32, of FP8; LogFMT's header
    input  logic        is_sound_i,        // LogFMT's header is
    input  logic [31:0] weight_i,          // FP32; three steps after the code
    input  logic        is_first_i,        // there is no sum yet; five steps after the code, as what follows
    input  logic [31:0] sum_i,
    output logic [31:0] sum_o
);
    localparam logic [31:0] ONE = 32'h3f800000;
    localparam logic [31:0] NAN = 32'h7fc00000;

    // LogFMT. K counts from the minimum's, which is 1.
    logic [8:0]  early_k;
    logic [31:0] base, power;
    assign early_k = early_is_10_i ? early_code_i : {2'b0, early_code_i[6:0]};
    plait_logfmt_magnitude u_magnitude (
        .clk_i(logfmt_clk_i), .index_i(early_k == '0 ? '0 : early_k - 1'b1), .step_i(early_step_i), .min_i(late_min_i),
        .base_o(base), .power_o(power));

    logic        is_10, is_zero, is_largest, sign, is_e5m2;
    logic [31:0] fp8, base_or_max, first, second;
    assign is_10 = format_i == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    assign sign = is_10 ? code_i[9] : code_i[7];
    assign is_zero = is_10 ? code_i[8:0] == '0 : code_i[6:0] == '0;
    assign is_largest = is_10 ? code_i[8:0] == '1 : code_i[6:0] == '1;
    assign base_or_max = is_zero ? '0 : is_largest ? {1'b0, scale_i[30:16], 16'b0} : base;
    assign is_e5m2 = format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_F32 || format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    plait_fp8_decode u_fp8 (.is_e5m2_i(is_e5m2), .code_i(code_i[7:0]), .number_o(fp8));
    always_comb begin
        case (format_i)
            plait_regmap_pkg::ROW_FORMAT_BF16: {first, second} = {code_i[15:0], 16'b0, ONE};
            plait_regmap_pkg::ROW_FORMAT_F32: {first, second} = {code_i, ONE};
            plait_regmap_pkg::ROW_FORMAT_LOGFMT8, plait_regmap_pkg::ROW_FORMAT_LOGFMT10: begin
                first = !is_sound_i || (is_zero && sign) ? NAN : {sign, 31'b0} | base_or_max;
                second = is_largest ? ONE : power;
            end
            default: {first, second} = {fp8, scale_i};
        endcase
    end

    logic [31:0] first_q, second_q, product, value, added;
    always_ff @(posedge clk_i) begin
        first_q <= first;
        second_q <= second;
    end
    plait_fp32_multiply u_scaled (.clk_i, .a_i(first_q), .b_i(second_q), .product_o(product));
    plait_fp32_multiply u_weighted (.clk_i, .a_i(product), .b_i(weight_i), .product_o(value));
    plait_fp32_add u_sum (.a_i(sum_i), .b_i(value), .sum_o(added));
    assign sum_o = is_first_i ? value : added;
endmodule
