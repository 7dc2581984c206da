// Encodes rows: firmware/engines' encode_row(). 32 elements a cycle, without a gap between rows of a block or more; the codes of a
// row come as words of 64 bytes, then its scales, which begin a word of their own.
//
//   row      elements as FP32; their beats wait until the block's factor is there
//   block    maximum, scale and factor of each block (plait_quantise_block)
//   lanes    an element times the factor, encoded
//   pack     codes and scales become words (plait_quantise_pack), rows are put together (plait_quantise_words)
module plait_quantise #(
    parameter int unsigned ELEMENT_BITS = 16,  // 16: rows are BF16; 32: FP32
    parameter int unsigned MAX_ELEMENTS = plait_regmap_pkg::MAX_HIDDEN,
    parameter int unsigned TAG_BITS = 32,
    localparam int unsigned COUNT_BITS = $clog2(MAX_ELEMENTS + 1)
) (
    input  logic                       clk_i,
    input  logic                       rst_ni,  // synchronous; forgets rows that are not complete

    input  logic                       cmd_valid_i,
    output logic                       cmd_ready_o,
    input  logic [7:0]                 cmd_format_i,    // row_format_e
    input  logic [31:0]                cmd_elements_i,
    input  logic [TAG_BITS-1:0]        cmd_tag_i,       // comes back with the row

    input  logic                       row_valid_i,     // the rows of the commands that are not refused, in order
    output logic                       row_ready_o,
    input  logic [32*ELEMENT_BITS-1:0] row_data_i,      // the first element in the lowest bits

    output logic                       rsp_valid_o,
    input  logic                       rsp_ready_i,
    output logic [511:0]               rsp_data_o,
    output logic [6:0]                 rsp_bytes_o,      // 64, or less in the last word of the codes and of the scales
    output logic                       rsp_scales_o,     // this word has scales
    output logic                       rsp_last_o,       // of the row
    output logic [TAG_BITS-1:0]        rsp_tag_o,
    output logic [7:0]                 rsp_status_o,     // status_e; other than ok: the row was refused, and the rest is zero
    output logic [COUNT_BITS-1:0]      rsp_non_finite_o  // with the last word: infinities and NaN among the elements
);
    if (ELEMENT_BITS != 16 && ELEMENT_BITS != 32) $fatal(1, "plait_quantise: ELEMENT_BITS is %0d, expected 16 or 32", ELEMENT_BITS);
    if (MAX_ELEMENTS < 128 || MAX_ELEMENTS > 16384)
        $fatal(1, "plait_quantise: MAX_ELEMENTS is %0d, expected 128 .. 16384", MAX_ELEMENTS);

    localparam int unsigned BYTE_BITS = COUNT_BITS + 2;
    localparam int unsigned BEATS = 32;         // that may wait for a factor: a block's four and as long as a factor takes
    localparam int unsigned ROWS = 32;          // that may be in the block
    localparam int unsigned CODE_WORDS = 8;     // that may wait while scales of the row before go out
    localparam int unsigned SCALE_WORDS = 16;   // at least those of a row

    // Commands. The rows that are encoded, and all rows in the order in which they leave.
    logic                  is_known, is_length, can_start, can_end, accepted;
    logic [COUNT_BITS-1:0] elements, scale_bytes;
    logic [BYTE_BITS-1:0]  code_bytes;
    logic [7:0]            status;
    assign elements = COUNT_BITS'(cmd_elements_i);
    assign is_length = cmd_elements_i != '0 && cmd_elements_i <= MAX_ELEMENTS;
    assign status = !is_known ? plait_regmap_pkg::STATUS_INVALID_PARAMETER
                  : !is_length ? plait_regmap_pkg::STATUS_INVALID_LENGTH : plait_regmap_pkg::STATUS_OK;
    assign cmd_ready_o = can_start && can_end;
    assign accepted = cmd_valid_i && cmd_ready_o;
    plait_row_bytes #(.ELEMENT_COUNT_BITS(COUNT_BITS)) u_bytes (
        .format_i(cmd_format_i), .elements_i(elements), .is_known_o(is_known), .code_bytes_o(code_bytes), .scale_bytes_o(scale_bytes));

    logic                  has_row, row_ends;
    logic [7:0]            row_format;
    logic [COUNT_BITS-1:0] row_elements;
    plait_fifo #(.WORDS(4), .BITS(8 + COUNT_BITS)) u_starts (
        .clk_i, .rst_ni, .can_push_o(can_start), .push_i(accepted && status == plait_regmap_pkg::STATUS_OK),
        .data_i({cmd_format_i, elements}), .can_pop_o(has_row), .pop_i(row_ends), .data_o({row_format, row_elements}));

    logic                  has_end_row, end_row_taken;
    logic [TAG_BITS-1:0]   end_tag;
    logic [7:0]            end_status;
    logic [BYTE_BITS-1:0]  end_code_bytes;
    logic [COUNT_BITS-1:0] end_scale_bytes;
    plait_fifo #(.WORDS(ROWS), .BITS(TAG_BITS + 8 + BYTE_BITS + COUNT_BITS)) u_rows (
        .clk_i, .rst_ni, .can_push_o(can_end), .push_i(accepted), .data_i({cmd_tag_i, status, code_bytes, scale_bytes}),
        .can_pop_o(has_end_row), .pop_i(end_row_taken), .data_o({end_tag, end_status, end_code_bytes, end_scale_bytes}));

    // Row. Behind its end there are zeros, which change neither maximum nor codes. LogFMT is of BF16 numbers.
    logic                  begun_q, beat_taken, beat_popped;
    logic [COUNT_BITS-1:0] left_q, left;
    logic [1:0]            beat_of_block_q;
    logic [5:0]            beat_elements;
    logic [$clog2(BEATS):0] held_q;
    logic [1023:0]         numbers;
    assign row_ready_o = has_row && held_q != ($clog2(BEATS) + 1)'(BEATS);
    assign beat_taken = row_valid_i && row_ready_o;
    assign left = begun_q ? left_q : row_elements;
    assign row_ends = beat_taken && left <= COUNT_BITS'(32);
    assign beat_elements = left < COUNT_BITS'(32) ? 6'(left) : 6'd32;
    for (genvar i = 0; i < 32; i = i + 1) begin : g_number
        logic [31:0] number;
        if (ELEMENT_BITS == 16) begin : g_bf16
            assign number = {row_data_i[16*i +: 16], 16'b0};
        end else begin : g_fp32
            logic        is_bf16;
            logic [15:0] bf16;
            assign is_bf16 = row_format == plait_regmap_pkg::ROW_FORMAT_LOGFMT8 || row_format == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
            plait_bf16_round u_bf16 (.number_i(row_data_i[32*i +: 32]), .bf16_o(bf16));
            assign number = is_bf16 ? {bf16, 16'b0} : row_data_i[32*i +: 32];
        end
        assign numbers[32*i +: 32] = left > COUNT_BITS'(i) ? number : '0;
    end

    logic          row_clk, beat_q, beat_ends_block_q, beat_ends_row_q;
    logic [7:0]    beat_format_q;
    logic [5:0]    beat_elements_q;
    logic [1023:0] numbers_q;
    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            begun_q <= 1'b0;
            beat_of_block_q <= '0;
            beat_q <= 1'b0;
            held_q <= '0;
        end else begin
            beat_q <= beat_taken;
            held_q <= held_q + ($clog2(BEATS) + 1)'(beat_taken) - ($clog2(BEATS) + 1)'(beat_popped);
            if (beat_taken) begin
                begun_q <= !row_ends;
                beat_of_block_q <= row_ends ? '0 : beat_of_block_q + 1'b1;
            end
        end
    end
    // Their clock stands still while no beat can come.
    plait_clock_gate u_row_clk (.clk_i, .enable_i(row_ready_o), .clk_o(row_clk));
    always_ff @(posedge row_clk) if (beat_taken) begin
        left_q <= left - COUNT_BITS'(32);
        beat_ends_block_q <= row_ends || beat_of_block_q == '1;
        beat_ends_row_q <= row_ends;
        beat_format_q <= row_format;
        beat_elements_q <= beat_elements;
        numbers_q <= numbers;
    end

    // Beats and factors; there are never more factors than beats, nor beats than places.
    localparam int unsigned BEAT_BITS = 8 + 6 + 2 + 1024;
    logic          has_beat, has_factor, ends_block, ends_row, unused_beats_room, unused_factors_room;
    logic [7:0]    format;
    logic [5:0]    count;
    logic [1023:0] waiting;
    plait_fifo #(.WORDS(BEATS), .BITS(BEAT_BITS)) u_beats (
        .clk_i, .rst_ni, .can_push_o(unused_beats_room), .push_i(beat_q),
        .data_i({beat_format_q, beat_elements_q, beat_ends_block_q, beat_ends_row_q, numbers_q}),
        .can_pop_o(has_beat), .pop_i(beat_popped), .data_o({format, count, ends_block, ends_row, waiting}));

    logic        block_valid;
    logic [31:0] block_scale, block_factor, block_step, block_per_log, block_log_min, scale, factor, step, per_log, log_min;
    plait_quantise_block u_block (
        .clk_i, .rst_ni, .valid_i(beat_q), .last_i(beat_ends_block_q), .format_i(beat_format_q), .numbers_i(numbers_q),
        .valid_o(block_valid), .scale_o(block_scale), .factor_o(block_factor), .step_o(block_step), .log_min_o(block_log_min),
        .per_log_o(block_per_log));
    plait_fifo #(.WORDS(BEATS), .BITS(160)) u_factors (
        .clk_i, .rst_ni, .can_push_o(unused_factors_room), .push_i(block_valid),
        .data_i({block_scale, block_factor, block_step, block_per_log, block_log_min}), .can_pop_o(has_factor),
        .pop_i(beat_popped && ends_block), .data_o({scale, factor, step, per_log, log_min}));

    // Lanes: a beat and what goes with it, by steps.
    localparam int unsigned PER_LOG = 2, INDEX = 4, STEP = 5, BASE = 21, MAX = 23, NUMBER = 24, MIN = 25, CODE = 26, LAST = 27;
    logic          advance, beat_clk, product_clk, is_logfmt, logfmt_clk;
    logic [LAST:0] valid_q, ends_block_q, ends_row_q;
    logic [CODE:0] logfmt_q;
    logic [7:0]    format_q [LAST+1];
    logic [5:0]    count_q [LAST+1];
    logic [31:0]   scale_q [LAST+1];
    logic [1023:0] number_q [NUMBER+1];
    logic [31:0]   factor_q [NUMBER+1];
    logic [31:0]   step_q [STEP+1];
    logic [31:0]   per_log_q [PER_LOG+1];
    logic [31:0]   log_min_q, finite;
    logic [1023:0] codes;
    assign beat_popped = advance && has_beat && has_factor;
    assign is_logfmt = format == plait_regmap_pkg::ROW_FORMAT_LOGFMT8 || format == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    // Clocks stand still while there is nothing in the lanes, or no LogFMT, or nothing can move.
    plait_clock_gate u_beat_clk (.clk_i, .enable_i(beat_popped || (advance && valid_q != '0)), .clk_o(beat_clk));
    plait_clock_gate u_logfmt_clk (.clk_i, .enable_i(advance && logfmt_q != '0), .clk_o(logfmt_clk));
    plait_clock_gate u_product_clk (.clk_i, .enable_i(advance && valid_q[CODE:NUMBER] != '0), .clk_o(product_clk));

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            valid_q <= '0;
            logfmt_q <= '0;
        end else if (advance) begin
            valid_q <= {valid_q[LAST-1:0], beat_popped};
            logfmt_q <= {logfmt_q[CODE-1:0], beat_popped && is_logfmt};
        end
    end
    always_ff @(posedge beat_clk) begin
        ends_block_q <= {ends_block_q[LAST-1:0], ends_block};
        ends_row_q <= {ends_row_q[LAST-1:0], ends_row};
        format_q[0] <= format;
        count_q[0] <= count;
        scale_q[0] <= scale;
        number_q[0] <= waiting;
        factor_q[0] <= factor;
        step_q[0] <= step;
        per_log_q[0] <= per_log;
        log_min_q <= log_min;
        for (int unsigned i = 1; i <= LAST; i = i + 1) begin
            format_q[i] <= format_q[i-1];
            count_q[i] <= count_q[i-1];
            scale_q[i] <= scale_q[i-1];
        end
        for (int unsigned i = 1; i <= NUMBER; i = i + 1) begin
            number_q[i] <= number_q[i-1];
            factor_q[i] <= factor_q[i-1];
        end
        for (int unsigned i = 1; i <= STEP; i = i + 1) step_q[i] <= step_q[i-1];
        for (int unsigned i = 1; i <= PER_LOG; i = i + 1) per_log_q[i] <= per_log_q[i-1];
    end

    logic index_is_10, max_is_10;
    assign index_is_10 = format_q[INDEX] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    assign max_is_10 = format_q[MAX] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    for (genvar i = 0; i < 32; i = i + 1) begin : g_lane
        plait_quantise_lane u_lane (
            .clk_i(product_clk), .logfmt_clk_i(logfmt_clk), .magnitude_i(number_q[0][32*i+16 +: 15]), .log_min_i(log_min_q),
            .per_log_i(per_log_q[PER_LOG]), .index_is_10_i(index_is_10), .step_i(step_q[STEP]), .base_min_i(scale_q[BASE][14:0]),
            .max_is_10_i(max_is_10), .max_i(scale_q[MAX][30:16]), .min_i(scale_q[MIN][14:0]), .number_i(number_q[NUMBER][32*i +: 32]),
            .factor_i(factor_q[NUMBER]), .format_i(format_q[CODE]), .code_o(codes[32*i +: 32]), .is_finite_o(finite[i]));
    end

    // Pack.
    logic [1023:0] packed_codes;
    logic [5:0]    code_bits;
    logic [10:0]   beat_bits;
    always_comb begin
        packed_codes = '0;
        code_bits = 6'd8;
        for (int unsigned i = 0; i < 32; i = i + 1) packed_codes[8*i +: 8] = codes[32*i +: 8];
        if (format_q[LAST] == plait_regmap_pkg::ROW_FORMAT_BF16) begin
            code_bits = 6'd16;
            for (int unsigned i = 0; i < 32; i = i + 1) packed_codes[16*i +: 16] = codes[32*i +: 16];
        end else if (format_q[LAST] == plait_regmap_pkg::ROW_FORMAT_F32) begin
            code_bits = 6'd32;
            packed_codes = codes;
        end else if (format_q[LAST] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10) begin
            code_bits = 6'd10;
            packed_codes = '0;
            for (int unsigned i = 0; i < 32; i = i + 1) packed_codes[10*i +: 10] = codes[32*i +: 10];
        end
    end
    assign beat_bits = 11'(count_q[LAST]) * 11'(code_bits);

    logic         pack_ready, code_pushed, can_push_code, has_code, code_taken;
    logic [511:0] code_pushed_word, code_word;
    logic         scale_pushed, can_push_scale, has_scale, scale_taken;
    logic [511:0] scale_pushed_word, scale_word;
    plait_quantise_pack u_pack (
        .clk_i, .rst_ni, .valid_i(valid_q[LAST] && can_push_scale), .ready_o(pack_ready), .codes_i(packed_codes), .bits_i(beat_bits),
        .last_i(ends_row_q[LAST]), .valid_o(code_pushed), .ready_i(can_push_code), .word_o(code_pushed_word));
    assign advance = !valid_q[LAST] || (pack_ready && can_push_scale);
    plait_fifo #(.WORDS(CODE_WORDS), .BITS(512)) u_codes (
        .clk_i, .rst_ni, .can_push_o(can_push_code), .push_i(code_pushed), .data_i(code_pushed_word), .can_pop_o(has_code),
        .pop_i(code_taken), .data_o(code_word));

    // Scales of a row, one to a block.
    logic         has_scales, is_short_scale, leaves, scale_word_ends;
    logic [511:0] scales_q;
    logic [5:0]   scale_place_q, scale_place;
    assign leaves = valid_q[LAST] && advance;
    assign is_short_scale = format_q[LAST] == plait_regmap_pkg::ROW_FORMAT_E4M3_UE8M0 || format_q[LAST] == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;
    assign has_scales = format_q[LAST] != plait_regmap_pkg::ROW_FORMAT_BF16 && format_q[LAST] != plait_regmap_pkg::ROW_FORMAT_F32;
    assign scale_place = scale_place_q + (is_short_scale ? 6'd1 : 6'd4);  // zero after a whole word
    assign scale_pushed_word = scales_q | ({480'b0, scale_q[LAST]} << {scale_place_q, 3'b0});
    assign scale_word_ends = scale_place == '0 || ends_row_q[LAST];
    assign scale_pushed = leaves && has_scales && ends_block_q[LAST] && scale_word_ends;
    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            scales_q <= '0;
            scale_place_q <= '0;
        end else if (leaves && has_scales && ends_block_q[LAST]) begin
            scales_q <= scale_word_ends ? '0 : scale_pushed_word;
            scale_place_q <= scale_word_ends ? '0 : scale_place;
        end
    end
    plait_fifo #(.WORDS(SCALE_WORDS), .BITS(512)) u_scales (
        .clk_i, .rst_ni, .can_push_o(can_push_scale), .push_i(scale_pushed), .data_i(scale_pushed_word), .can_pop_o(has_scale),
        .pop_i(scale_taken), .data_o(scale_word));

    // Infinities and NaN of a row; it has ended when they are counted.
    logic [COUNT_BITS-1:0] non_finite_q, non_finite, end_non_finite;
    logic [5:0]            beat_non_finite;
    logic                  has_end, unused_ends_room;
    always_comb begin
        beat_non_finite = '0;
        for (int unsigned i = 0; i < 32; i = i + 1) beat_non_finite = beat_non_finite + 6'(!finite[i]);
    end
    assign non_finite = non_finite_q + COUNT_BITS'(beat_non_finite);
    always_ff @(posedge clk_i) begin
        if (!rst_ni) non_finite_q <= '0;
        else if (leaves) non_finite_q <= ends_row_q[LAST] ? '0 : non_finite;
    end
    plait_fifo #(.WORDS(ROWS), .BITS(COUNT_BITS)) u_ends (
        .clk_i, .rst_ni, .can_push_o(unused_ends_room), .push_i(leaves && ends_row_q[LAST]), .data_i(non_finite), .can_pop_o(has_end),
        .pop_i(end_row_taken && end_status == plait_regmap_pkg::STATUS_OK), .data_o(end_non_finite));

    plait_quantise_words #(.TAG_BITS(TAG_BITS), .BYTE_COUNT_BITS(BYTE_BITS), .COUNT_BITS(COUNT_BITS)) u_words (
        .clk_i, .rst_ni,
        .row_valid_i(has_end_row), .tag_i(end_tag), .status_i(end_status), .code_bytes_i(end_code_bytes),
        .scale_bytes_i(BYTE_BITS'(end_scale_bytes)), .row_taken_o(end_row_taken),
        .end_valid_i(has_end), .non_finite_i(end_non_finite),
        .code_valid_i(has_code), .code_word_i(code_word), .code_taken_o(code_taken),
        .scale_valid_i(has_scale), .scale_word_i(scale_word), .scale_taken_o(scale_taken),
        .out_valid_o(rsp_valid_o), .out_ready_i(rsp_ready_i), .out_data_o(rsp_data_o), .out_bytes_o(rsp_bytes_o),
        .out_scales_o(rsp_scales_o), .out_last_o(rsp_last_o), .out_tag_o(rsp_tag_o), .out_status_o(rsp_status_o),
        .out_non_finite_o(rsp_non_finite_o));
endmodule
