// The LogFMT code of a BF16 number in its tile. The logarithm finds two codes, of which the one with the nearer magnitude is
// taken, the lower one when both are as near. What it needs comes when it is needed: the figures are steps after the number.
module plait_quantise_logfmt (
    input  logic        clk_i,
    input  logic [14:0] magnitude_i,    // 0
    input  logic [31:0] log_min_i,      // 0; as plait_quantise_block says
    input  logic [31:0] per_log_i,      // 2
    input  logic        index_is_10_i,  // 4; LogFMT-10, else LogFMT-8
    input  logic [31:0] step_i,         // 5
    input  logic [14:0] base_min_i,     // 21; the header's minimum
    input  logic        max_is_10_i,    // 23
    input  logic [14:0] max_i,          // 23; the header's maximum
    input  logic [15:0] number_i,       // 24; once more
    input  logic [14:0] min_i,          // 25
    input  logic        code_is_10_i,   // 26
    output logic [9:0]  code_o          // 27
);
    localparam int unsigned INDEX = 5, MAX = 23, CODE = 26;
    localparam logic [31:0] ONE = 32'h3f800000;

    // How far it is above the minimum, in codes. Below it, or where it is zero, whatever comes out plays no part.
    logic [1:0]  unused_exponent;
    logic [6:0]  exponent, unused_fraction;
    logic [24:0] log2;
    logic [31:0] distance_q, distance, distance_qq;
    logic        unused_sign;
    logic [30:0] estimate;
    logic [8:0]  intervals, whole, index, index_q [CODE+1];
    plait_logfmt_log2 u_log2 (.magnitude_i, .exponent_o({unused_exponent, exponent}), .fraction_o(unused_fraction), .log2_o(log2));
    plait_fp32_round #(.BITS(32)) u_distance (
        .sign_i(1'b0), .exponent_i(11'sd157), .significand_i(distance_q[31] ? '0 : distance_q), .number_o(distance));
    plait_fp32_multiply u_estimate (.clk_i, .a_i(distance_qq), .b_i(per_log_i), .product_o({unused_sign, estimate}));
    assign intervals = index_is_10_i ? 9'd510 : 9'd126;
    assign whole = estimate[30:23] < 8'd127 ? '0 : 9'({9'b1, estimate[22:0]} >> (8'd150 - estimate[30:23]));
    assign index = estimate[30:23] > 8'd135 || whole >= intervals ? intervals - 1'b1 : whole;
    always_ff @(posedge clk_i) begin
        distance_q <= {exponent, log2} - log_min_i;
        distance_qq <= distance;
        index_q[INDEX] <= index;
        for (int unsigned i = INDEX + 1; i <= CODE; i = i + 1) index_q[i] <= index_q[i-1];
    end

    // The magnitudes of this code and of the next one, which may be the maximum itself.
    logic [31:0] base, power, next_base, next_power, magnitude, next_magnitude;
    logic        next_is_max;
    plait_logfmt_magnitude u_this (
        .clk_i, .index_i(index_q[INDEX]), .step_i, .min_i(base_min_i), .base_o(base), .power_o(power));
    plait_logfmt_magnitude u_next (
        .clk_i, .index_i(index_q[INDEX] + 1'b1), .step_i, .min_i(base_min_i), .base_o(next_base), .power_o(next_power));
    assign next_is_max = index_q[MAX] + 1'b1 == (max_is_10_i ? 9'd510 : 9'd126);
    plait_fp32_multiply u_magnitude (.clk_i, .a_i(base), .b_i(power), .product_o(magnitude));
    plait_fp32_multiply u_next_magnitude (
        .clk_i, .a_i(next_is_max ? {1'b0, max_i, 16'b0} : next_base), .b_i(next_is_max ? ONE : next_power),
        .product_o(next_magnitude));

    // How near they are, or the minimum and zero below it.
    logic [15:0] number_q, number_qq;
    logic [31:0] x, above, below_next, below_min, above_q, below_next_q, below_min_q;
    logic        is_small_q;
    assign x = {1'b0, number_q[14:0], 16'b0};
    plait_fp32_add u_above (.a_i(x), .b_i({!magnitude[31], magnitude[30:0]}), .sum_o(above));
    plait_fp32_add u_below_next (.a_i(next_magnitude), .b_i({1'b1, x[30:0]}), .sum_o(below_next));
    plait_fp32_add u_below_min (.a_i({1'b0, min_i, 16'b0}), .b_i({1'b1, x[30:0]}), .sum_o(below_min));
    always_ff @(posedge clk_i) begin
        number_q <= number_i;
        number_qq <= number_q;
        above_q <= above;
        below_next_q <= below_next;
        below_min_q <= below_min;
        is_small_q <= number_q[14:0] < min_i || number_q[14:0] == '0;
    end

    // FP32 numbers as unsigned ones in the same order.
    logic        takes_next, takes_min, sign;
    logic [8:0]  k;
    assign takes_next = {!above_q[31], above_q[31] ? ~above_q[30:0] : above_q[30:0]}
                      > {!below_next_q[31], below_next_q[31] ? ~below_next_q[30:0] : below_next_q[30:0]};
    assign takes_min = !below_min_q[31] && {number_qq[14:0], 16'b0} > below_min_q[30:0];
    assign k = is_small_q ? 9'(takes_min) : index_q[CODE] + 9'd1 + 9'(takes_next);
    assign sign = number_qq[15] && k != '0;
    always_ff @(posedge clk_i) begin
        if (number_qq[14:7] == '1) code_o <= code_is_10_i ? 10'h200 : 10'h080;  // NaN
        else code_o <= code_is_10_i ? {sign, k} : {2'b0, sign, k[6:0]};
    end
endmodule
