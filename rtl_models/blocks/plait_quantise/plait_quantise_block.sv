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
    output logic [31:0]   factor_o    // FP32
);
    localparam logic [30:0] INFINITE = 31'h7f800000;
    localparam logic [30:0] ONE = 31'h3f800000;
    localparam logic [30:0] LEAST_MAXIMUM = 31'h38d1b717;  // 1e-4
    localparam logic [30:0] E4M3_MAX = 31'h43e00000, E4M3_MAX_INVERSE = 31'h3b124925;
    localparam logic [30:0] E5M2_MAX = 31'h47600000, E5M2_MAX_INVERSE = 31'h37924925;

    // The largest finite magnitude of a beat, by halves.
    logic [32*31-1:0] largest;
    always_comb begin
        for (int unsigned i = 0; i < 32; i = i + 1)
            largest[31*i +: 31] = numbers_i[32*i +: 31] < INFINITE ? numbers_i[32*i +: 31] : '0;
        for (int unsigned half = 16; half > 0; half = half >> 1)
            for (int unsigned i = 0; i < half; i = i + 1)
                if (largest[31*(i+half) +: 31] > largest[31*i +: 31]) largest[31*i +: 31] = largest[31*(i+half) +: 31];
    end

    // Of the block, and what FP8 makes of it.
    logic        valid_q, last_q, starts_q;
    logic [7:0]  format_q;
    logic [30:0] beat_max_q, so_far_q, block_max, amax;
    logic        is_e5m2;
    logic [7:0]  power;
    assign block_max = starts_q || beat_max_q > so_far_q ? beat_max_q : so_far_q;
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
        beat_max_q <= largest[30:0];
        last_q <= last_i;
        format_q <= format_i;
        if (valid_q) so_far_q <= block_max;
    end

    // Stages: the maximum, and the factor that is a quotient.
    localparam int unsigned MAXIMUM = 0, FACTOR = 8;
    localparam int unsigned SCALE = MAXIMUM + 3;
    logic [FACTOR:0] block_q;
    logic [7:0]      kind_q [FACTOR+1], power_q [FACTOR+1];
    logic [31:0]     scale_q [FACTOR+1];
    logic [30:0]     amax_q, largest_code_q, inverse_q;
    logic [31:0]     product, quotient;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) block_q <= '0;
        else block_q <= {block_q[FACTOR-1:0], valid_q && last_q};
        kind_q[MAXIMUM] <= format_q;
        power_q[MAXIMUM] <= power;
        amax_q <= amax;
        largest_code_q <= is_e5m2 ? E5M2_MAX : E4M3_MAX;
        inverse_q <= is_e5m2 ? E5M2_MAX_INVERSE : E4M3_MAX_INVERSE;
        for (int unsigned i = MAXIMUM + 1; i <= FACTOR; i = i + 1) begin
            kind_q[i] <= kind_q[i-1];
            power_q[i] <= power_q[i-1];
        end
        scale_q[SCALE] <= product;
        for (int unsigned i = SCALE + 1; i <= FACTOR; i = i + 1) scale_q[i] <= scale_q[i-1];
    end
    plait_fp32_multiply u_scale (.clk_i, .advance_i(1'b1), .a_i({1'b0, amax_q}), .b_i({1'b0, inverse_q}), .product_o(product));
    plait_fp32_divide u_factor (.clk_i, .advance_i(1'b1), .a_i(largest_code_q), .b_i(amax_q), .quotient_o(quotient));

    assign valid_o = block_q[FACTOR];
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
