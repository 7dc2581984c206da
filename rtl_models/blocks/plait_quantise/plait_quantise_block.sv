// The scale of each block and the factor for its elements, a fixed time after the block's last beat. Takes a beat a cycle.
module plait_quantise_block (
    input  logic          clk_i,
    input  logic          rst_ni,
    input  logic          valid_i,
    input  logic          last_i,     // of its block
    input  logic [7:0]    format_i,
    input  logic [1023:0] numbers_i,  // 32 FP32; zero where there is no element
    output logic          valid_o,
    output logic [31:0]   scale_o,    // as it lies in the row
    output logic [31:0]   factor_o,   // FP32; 1 where there is none
    output logic [31:0]   step_o,     // LogFMT: of log2 from one code to the next, FP32
    output logic [31:0]   log_min_o,  // LogFMT: log2 of the minimum, units of 2^-25, modulo 2^32
    output logic [31:0]   per_log_o   // LogFMT: codes per such a unit, FP32
);
    localparam logic [30:0] INFINITE = 31'h7f800000;
    localparam logic [30:0] ONE = 31'h3f800000;
    localparam logic [30:0] LEAST_MAXIMUM = 31'h38d1b717;  // 1e-4
    localparam logic [31:0] LEAST_OF_MAXIMUM = 32'h2f800000;  // 2^-32: how far LogFMT reaches
    localparam logic [30:0] INTERVALS_8 = 31'h42fc0000, INTERVALS_10 = 31'h43ff0000;  // between the codes: 126 and 510
    localparam logic [30:0] E4M3_MAX = 31'h43e00000, E4M3_MAX_INVERSE = 31'h3b124925;
    localparam logic [30:0] E5M2_MAX = 31'h47600000, E5M2_MAX_INVERSE = 31'h37924925;

    // The largest finite magnitude of a beat, by halves; of BF16 also the smallest one above zero.
    logic [32*31-1:0] largest;
    logic [32*15-1:0] smallest;
    always_comb begin
        for (int unsigned i = 0; i < 32; i = i + 1)
            largest[31*i +: 31] = numbers_i[32*i +: 31] < INFINITE ? numbers_i[32*i +: 31] : '0;
        for (int unsigned i = 0; i < 32; i = i + 1)
            smallest[15*i +: 15] = numbers_i[32*i+16 +: 15] != '0 ? numbers_i[32*i+16 +: 15] : INFINITE[30:16];
        for (int unsigned half = 16; half > 0; half = half >> 1)
            for (int unsigned i = 0; i < half; i = i + 1) begin
                if (largest[31*(i+half) +: 31] > largest[31*i +: 31]) largest[31*i +: 31] = largest[31*(i+half) +: 31];
                if (smallest[15*(i+half) +: 15] < smallest[15*i +: 15]) smallest[15*i +: 15] = smallest[15*(i+half) +: 15];
            end
    end

    // Of the block, and what FP8 makes of it.
    logic        block_clk, valid_q, last_q, starts_q;
    logic [7:0]  format_q;
    logic [30:0] beat_max_q, max_so_far_q, block_max, amax;
    logic [14:0] beat_min_q, min_so_far_q, block_min;
    logic        is_e5m2;
    logic [7:0]  power;
    assign block_max = starts_q || beat_max_q > max_so_far_q ? beat_max_q : max_so_far_q;
    assign block_min = starts_q || beat_min_q < min_so_far_q ? beat_min_q : min_so_far_q;
    assign amax = block_max > LEAST_MAXIMUM ? block_max : LEAST_MAXIMUM;
    assign is_e5m2 = format_q == plait_regmap_pkg::ROW_FORMAT_E5M2_F32 || format_q == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    // UE8M0: the smallest power of two that brings the maximum to 1.75 times FP8's largest one, or below.
    assign power = 8'((amax + 31'h001fffff) >> 23) - (is_e5m2 ? 8'd15 : 8'd8);

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            valid_q <= 1'b0;
            starts_q <= 1'b1;
        end else begin
            valid_q <= valid_i;
            if (valid_q) starts_q <= last_q;
        end
    end
    always_ff @(posedge block_clk) begin
        beat_max_q <= largest[30:0];
        beat_min_q <= smallest[14:0];
        last_q <= last_i;
        format_q <= format_i;
        if (valid_q) begin
            max_so_far_q <= block_max;
            min_so_far_q <= block_min;
        end
    end

    // Stages: the maximum; two steps later LogFMT's header, and two more its range; then the quotients.
    localparam int unsigned MAXIMUM = 0, HEADER = 2, RANGE = 4, FACTOR = 12;
    logic [FACTOR:0] block_q;
    logic [7:0]      kind_q [FACTOR+1], power_q [FACTOR+1];
    logic [31:0]     scale_q [FACTOR+1];
    logic [30:0]     amax_q [RANGE+1];
    logic [30:0]     max_q [HEADER+1];
    logic [14:0]     min_q [HEADER+1];
    logic [31:0]     log_min_q [FACTOR+1];
    logic [FACTOR:0] one_magnitude_q;  // the header's are the same
    logic [31:0]     product, quotient, log_min;
    logic [30:0]     lowest, log_range;

    // The clock of all this stands still while there is no block.
    plait_clock_gate u_block_clk (.clk_i, .enable_i(valid_i || valid_q || block_q != '0), .clk_o(block_clk));
    always_ff @(posedge clk_i) begin
        if (!rst_ni) block_q <= '0;
        else block_q <= {block_q[FACTOR-1:0], valid_q && last_q};
    end
    always_ff @(posedge block_clk) begin
        kind_q[MAXIMUM] <= format_q;
        power_q[MAXIMUM] <= power;
        amax_q[MAXIMUM] <= amax;
        max_q[MAXIMUM] <= block_max;
        min_q[MAXIMUM] <= block_min;
        for (int unsigned i = MAXIMUM + 1; i <= FACTOR; i = i + 1) begin
            kind_q[i] <= kind_q[i-1];
            power_q[i] <= power_q[i-1];
        end
        for (int unsigned i = MAXIMUM + 1; i <= HEADER; i = i + 1) begin
            max_q[i] <= max_q[i-1];
            min_q[i] <= min_q[i-1];
        end
        for (int unsigned i = MAXIMUM + 1; i <= RANGE; i = i + 1) amax_q[i] <= amax_q[i-1];
        scale_q[HEADER+1] <= is_logfmt ? {header_max, 1'b0, header_min} : product;
        for (int unsigned i = HEADER + 2; i <= FACTOR; i = i + 1) scale_q[i] <= scale_q[i-1];
        log_min_q[RANGE] <= log_min;
        for (int unsigned i = RANGE + 1; i <= FACTOR; i = i + 1) log_min_q[i] <= log_min_q[i-1];
        one_magnitude_q <= {one_magnitude_q[FACTOR-1:RANGE+1], log_range == '0, {(RANGE + 1){1'b0}}};
    end

    // FP8: the maximum times the inverse of FP8's largest.
    logic is_maximum_e5m2;
    assign is_maximum_e5m2 = kind_q[MAXIMUM] == plait_regmap_pkg::ROW_FORMAT_E5M2_F32;
    plait_fp32_multiply u_scale (
        .clk_i(block_clk), .a_i({1'b0, amax_q[MAXIMUM]}), .b_i({1'b0, is_maximum_e5m2 ? E5M2_MAX_INVERSE : E4M3_MAX_INVERSE}),
        .product_o(product));

    // LogFMT: the minimum is no less than 2^-32 of the maximum, rounded up to a BF16. A block of zeros has the header 0.
    logic        is_logfmt, is_zero;
    logic        unused_sign;
    logic [14:0] lowest_up, header_min;
    logic [15:0] header_max;
    assign is_logfmt = kind_q[HEADER] == plait_regmap_pkg::ROW_FORMAT_LOGFMT8 || kind_q[HEADER] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    assign is_zero = max_q[HEADER] == '0;
    assign lowest_up = lowest[30:16] + 15'(lowest[15:0] != '0);
    assign header_min = is_zero ? '0 : min_q[HEADER] > lowest_up ? min_q[HEADER] : lowest_up;
    assign header_max = {1'b0, max_q[HEADER][30:16]};
    plait_fp32_multiply u_lowest (
        .clk_i(block_clk), .a_i({1'b0, max_q[MAXIMUM]}), .b_i(LEAST_OF_MAXIMUM), .product_o({unused_sign, lowest}));
    plait_logfmt_scale u_logfmt (
        .clk_i(block_clk), .is_10_i(kind_q[HEADER] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10), .min_i({1'b0, header_min}),
        .max_i(header_max), .log_min_o(log_min), .log_range_o(log_range), .step_o, .is_sound_o(unused_is_sound));

    // One divider for both: FP8's largest by the maximum, or the codes by LogFMT's range.
    logic        unused_is_sound;
    logic [30:0] dividend, divisor;
    always_comb begin
        divisor = amax_q[RANGE];
        case (kind_q[RANGE])
            plait_regmap_pkg::ROW_FORMAT_E5M2_F32: dividend = E5M2_MAX;
            plait_regmap_pkg::ROW_FORMAT_LOGFMT8: {dividend, divisor} = {INTERVALS_8, log_range};
            plait_regmap_pkg::ROW_FORMAT_LOGFMT10: {dividend, divisor} = {INTERVALS_10, log_range};
            default: dividend = E4M3_MAX;
        endcase
    end
    plait_fp32_divide u_factor (.clk_i(block_clk), .a_i(dividend), .b_i(divisor), .quotient_o(quotient));

    assign valid_o = block_q[FACTOR];
    assign log_min_o = log_min_q[FACTOR];
    assign per_log_o = one_magnitude_q[FACTOR] ? '0 : quotient;
    always_comb begin
        scale_o = scale_q[FACTOR];
        factor_o = {1'b0, ONE};
        case (kind_q[FACTOR])
            plait_regmap_pkg::ROW_FORMAT_E4M3_UE8M0, plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0: begin
                scale_o = {24'b0, power_q[FACTOR]};
                factor_o = {1'b0, 8'd254 - power_q[FACTOR], 23'b0};
            end
            plait_regmap_pkg::ROW_FORMAT_E4M3_F32, plait_regmap_pkg::ROW_FORMAT_E5M2_F32: factor_o = quotient;
            default: ;
        endcase
    end
endmodule
