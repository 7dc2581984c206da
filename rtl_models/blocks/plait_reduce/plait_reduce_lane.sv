// One element of a beat: its value four steps after its code, and the value added to the sum.
(* keep_hierarchy *)
module plait_reduce_lane (
    input  logic        clk_i,
    input  logic        advance_i,
    input  logic [7:0]  format_i,   // row_format_e
    input  logic [31:0] code_i,     // in the lowest bits
    input  logic [31:0] scale_i,    // FP32, of a format that has one
    input  logic [31:0] weight_i,   // FP32, two steps after the code
    input  logic        is_first_i, // four steps after the code, as what follows: there is no sum yet
    input  logic [31:0] sum_i,
    output logic [31:0] sum_o
);
    localparam logic [31:0] ONE = 32'h3f800000;

    logic        is_e5m2;
    logic [31:0] fp8, significand, scale, product, value, added;
    assign is_e5m2 = format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_F32 || format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    plait_fp8_decode u_fp8 (.is_e5m2_i(is_e5m2), .code_i(code_i[7:0]), .number_o(fp8));
    always_comb begin
        significand = fp8;
        scale = scale_i;
        if (format_i == plait_regmap_pkg::ROW_FORMAT_BF16) begin
            significand = {code_i[15:0], 16'b0};
            scale = ONE;
        end else if (format_i == plait_regmap_pkg::ROW_FORMAT_F32) begin
            significand = code_i;
            scale = ONE;
        end
    end

    plait_fp32_multiply u_scaled (.clk_i, .advance_i, .a_i(significand), .b_i(scale), .product_o(product));
    plait_fp32_multiply u_weighted (.clk_i, .advance_i, .a_i(product), .b_i(weight_i), .product_o(value));
    plait_fp32_add u_sum (.a_i(sum_i), .b_i(value), .sum_o(added));
    assign sum_o = is_first_i ? value : added;
endmodule
