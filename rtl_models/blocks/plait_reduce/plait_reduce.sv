// Adds rows in FP32 in order of their positions and encodes the sum once: the turns of firmware/engines' ReduceSlot, its additions, and
// encode_row(). Rows of all formats, 64 bytes a cycle without a gap between rows; a result takes a cycle for each 32 elements of
// it. A sum of up to 8 * PAGE_ELEMENTS takes as many pages as it needs, wherever they are.
//
//   turns    commands and their answers; which rows are fetched, in which order (plait_reduce_turns)
//   rows     their words become beats of up to 64 elements (plait_reduce_rows)
//   lanes    an element times its scale, times its weight, added to the sum (plait_reduce_lane)
//   result   encoded (plait_quantise)
module plait_reduce #(
    parameter int unsigned SUMS = 256,            // that may be open
    parameter int unsigned PAGES = 1024,          // that all of them have
    parameter int unsigned PAGE_ELEMENTS = 512,
    localparam int unsigned SUM_PAGES = 8,
    localparam int unsigned COUNT_BITS = $clog2(SUM_PAGES * PAGE_ELEMENTS + 1)
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,  // synchronous; no sum is open

    input  logic                  cmd_valid_i,
    output logic                  cmd_ready_o,
    input  logic [7:0]            cmd_opcode_i,    // reduce_opcode_e
    input  logic [31:0]           cmd_sum_i,
    input  logic [7:0]            cmd_position_i,  // open: how many rows
    input  logic [7:0]            cmd_format_i,    // row_format_e; open: of the result; add: of the row
    input  logic [31:0]           cmd_length_i,    // open: elements; add: bytes of the row
    input  logic [31:0]           cmd_value_i,     // weigh: the factor, FP32; add: the row's handle

    output logic                  rsp_valid_o,
    input  logic                  rsp_ready_i,
    output logic                  rsp_is_handle_o, // close, whose answer follows: a row that waited; the status means nothing
    output logic [31:0]           rsp_handle_o,
    output logic [7:0]            rsp_status_o,    // status_e; other than ok: nothing changed

    output logic                  fetch_valid_o,   // the row's words are to come, in this order
    input  logic                  fetch_ready_i,
    output logic [31:0]           fetch_handle_o,
    input  logic                  row_valid_i,
    output logic                  row_ready_o,
    input  logic [511:0]          row_data_i,      // a row's scales, then its codes, each from a word's lowest bits on

    output logic                  result_valid_o,
    input  logic                  result_ready_i,
    output logic [511:0]          result_data_o,   // codes, then scales, each from a word's lowest bits on
    output logic [6:0]            result_bytes_o,
    output logic                  result_scales_o,
    output logic                  result_last_o,
    output logic [31:0]           result_sum_o,
    output logic [COUNT_BITS-1:0] result_non_finite_o  // with the last word
);
    if (SUMS < 2 || SUMS > 65536) $fatal(1, "plait_reduce: SUMS is %0d, expected 2 .. 65536", SUMS);
    if (PAGES < SUM_PAGES || PAGES > 65536 || PAGES != 1 << $clog2(PAGES))
        $fatal(1, "plait_reduce: PAGES is %0d, expected a power of two, 8 .. 65536", PAGES);
    if (PAGE_ELEMENTS < 64 || PAGE_ELEMENTS > 512 || PAGE_ELEMENTS != 1 << $clog2(PAGE_ELEMENTS))
        $fatal(1, "plait_reduce: PAGE_ELEMENTS is %0d, expected a power of two, 64 .. 512", PAGE_ELEMENTS);

    localparam int unsigned SUM_BITS = $clog2(SUMS);
    localparam int unsigned PAGE_BITS = $clog2(PAGES);
    localparam int unsigned WORD_BITS = PAGE_BITS + $clog2(PAGE_ELEMENTS / 64);
    localparam int unsigned JOB_BITS = 2 + 1 + SUM_BITS + 8 + 32 + COUNT_BITS + SUM_PAGES * PAGE_BITS;

    // Turns, jobs, rows.
    logic                           can_push, job_pushed, has_job, job_done;
    logic [JOB_BITS-1:0]            pushed_job, job;
    logic [1:0]                     pushed_kind, kind;
    logic                           pushed_first, is_first, page_valid, left_valid, left_dropped;
    logic [SUM_BITS-1:0]            pushed_sum, sum, left_sum;
    logic [7:0]                     pushed_format, format;
    logic [31:0]                    pushed_weight, weight;
    logic [COUNT_BITS-1:0]          pushed_elements, elements;
    logic [SUM_PAGES*PAGE_BITS-1:0] pushed_pages, pages;
    logic [PAGE_BITS-1:0]           page;
    assign pushed_job = {pushed_kind, pushed_first, pushed_sum, pushed_format, pushed_weight, pushed_elements, pushed_pages};
    assign {kind, is_first, sum, format, weight, elements, pages} = job;
    plait_reduce_turns #(.SUMS(SUMS), .PAGES(PAGES), .PAGE_ELEMENTS(PAGE_ELEMENTS)) u_turns (
        .clk_i, .rst_ni, .cmd_valid_i, .cmd_ready_o, .cmd_opcode_i, .cmd_sum_i, .cmd_position_i, .cmd_format_i, .cmd_length_i,
        .cmd_value_i, .rsp_valid_o, .rsp_ready_i, .rsp_is_handle_o, .rsp_handle_o, .rsp_status_o, .fetch_valid_o, .fetch_ready_i,
        .fetch_handle_o, .job_valid_o(job_pushed), .job_ready_i(can_push), .job_kind_o(pushed_kind), .job_first_o(pushed_first),
        .job_sum_o(pushed_sum), .job_format_o(pushed_format), .job_weight_o(pushed_weight), .job_elements_o(pushed_elements),
        .job_pages_o(pushed_pages), .page_valid_i(page_valid), .page_i(page), .left_valid_i(left_valid), .left_sum_i(left_sum),
        .left_dropped_i(left_dropped));
    plait_fifo #(.WORDS(8), .BITS(JOB_BITS)) u_jobs (
        .clk_i, .rst_ni, .can_push_o(can_push), .push_i(job_pushed), .data_i(pushed_job), .can_pop_o(has_job), .pop_i(job_done),
        .data_o(job));

    // Steps of a beat: LogFMT's codes are looked at early, all codes late; then values, before which the sums are read.
    localparam int unsigned EARLY = 10, MIN = EARLY + 16, CODE = EARLY + 18, WEIGHT = CODE + 3, VALUE = CODE + 5, READ = VALUE - 1;
    localparam int unsigned PLACE_BITS = 1 + 1 + 1 + 4 + 4 * WORD_BITS;
    logic                   advance, beat_clk, announces, can_announce, beat_valid;
    logic [VALUE:1]         valid_q;
    logic [PLACE_BITS-1:0]  beat_place, place_q [VALUE+1];
    logic [31:0]            beat_weight, weight_q [WEIGHT+1];
    logic [639:0]           beat_data, data_q [CODE+1];
    logic [7:0]             beat_format, format_q [CODE+1];
    logic [63:0]            beat_scales, scales_q [CODE+1];
    logic [3:0]             beat_next, next_q [CODE+1];
    logic                   beat_gives, beat_first, beat_upper, value_gives, value_first, value_upper;
    logic [3:0]             beat_banks, value_banks;
    logic [4*WORD_BITS-1:0] beat_words, value_words, read_words;
    plait_reduce_rows #(.SUMS(SUMS), .PAGES(PAGES), .PAGE_ELEMENTS(PAGE_ELEMENTS)) u_rows (
        .clk_i, .rst_ni, .advance_i(advance), .job_valid_i(has_job), .job_ready_o(job_done), .job_kind_i(kind), .job_first_i(is_first),
        .job_sum_i(sum), .job_format_i(format), .job_weight_i(weight), .job_elements_i(elements), .job_pages_i(pages), .row_valid_i,
        .row_ready_o, .row_data_i, .result_valid_o(announces), .result_ready_i(can_announce), .beat_valid_o(beat_valid),
        .beat_gives_o(beat_gives), .beat_first_o(beat_first), .beat_upper_o(beat_upper), .beat_banks_o(beat_banks),
        .beat_words_o(beat_words), .beat_data_o(beat_data), .beat_format_o(beat_format), .beat_scales_o(beat_scales), .beat_next_o(beat_next),
        .beat_weight_o(beat_weight), .page_valid_o(page_valid), .page_o(page), .left_valid_o(left_valid), .left_sum_o(left_sum),
        .left_dropped_o(left_dropped));
    assign beat_place = {beat_gives, beat_first, beat_upper, beat_banks, beat_words};
    assign read_words = place_q[READ][4*WORD_BITS-1:0];
    assign {value_gives, value_first, value_upper, value_banks, value_words} = place_q[VALUE];

    // The clock of all that goes with beats stands still while there is none, or none can move.
    plait_clock_gate u_beat_clk (.clk_i, .enable_i(advance && {valid_q, beat_valid} != '0), .clk_o(beat_clk));
    always_ff @(posedge clk_i) begin
        if (!rst_ni) valid_q <= '0;
        else if (advance) valid_q <= {valid_q[VALUE-1:1], beat_valid};
    end
    always_ff @(posedge beat_clk) begin
        place_q[1] <= beat_place;
        for (int unsigned i = 2; i <= VALUE; i = i + 1) place_q[i] <= place_q[i-1];
        weight_q[1] <= beat_weight;
        for (int unsigned i = 2; i <= WEIGHT; i = i + 1) weight_q[i] <= weight_q[i-1];
        data_q[1] <= beat_data;
        format_q[1] <= beat_format;
        scales_q[1] <= beat_scales;
        next_q[1] <= beat_next;
        for (int unsigned i = 2; i <= CODE; i = i + 1) begin
            data_q[i] <= data_q[i-1];
            format_q[i] <= format_q[i-1];
            scales_q[i] <= scales_q[i-1];
            next_q[i] <= next_q[i-1];
        end
    end

    // LogFMT: what the headers of the first and the next block say. Its clock stands still while there is none.
    logic          beat_is_logfmt, logfmt_clk;
    logic [CODE:1] logfmt_q;
    logic [63:0]   steps;
    logic [1:0]    sound;
    assign beat_is_logfmt = beat_valid && (beat_format == plait_regmap_pkg::ROW_FORMAT_LOGFMT8 || beat_format == plait_regmap_pkg::ROW_FORMAT_LOGFMT10);
    plait_clock_gate u_logfmt_clk (.clk_i, .enable_i(advance && {logfmt_q, beat_is_logfmt} != '0), .clk_o(logfmt_clk));
    always_ff @(posedge clk_i) begin
        if (!rst_ni) logfmt_q <= '0;
        else if (advance) logfmt_q <= {logfmt_q[CODE-1:1], beat_is_logfmt};
    end
    for (genvar i = 0; i < 2; i = i + 1) begin : g_header
        logic                  is_sound;
        logic [CODE-EARLY-1:0] sound_q;
        logic [31:0]           unused_log_min;
        logic [30:0]           unused_log_range;
        plait_logfmt_scale u_scale (
            .clk_i(logfmt_clk), .is_10_i(beat_format == plait_regmap_pkg::ROW_FORMAT_LOGFMT10),
            .min_i(beat_scales[32*i +: 16]), .max_i(beat_scales[32*i+16 +: 16]), .log_min_o(unused_log_min),
            .log_range_o(unused_log_range), .step_o(steps[32*i +: 32]), .is_sound_o(is_sound));
        always_ff @(posedge logfmt_clk) sound_q <= {sound_q[CODE-EARLY-2:0], is_sound};
        assign sound[i] = sound_q[CODE-EARLY-1];
    end

    // Lanes, in four banks.
    logic          early_is_10;
    assign early_is_10 = format_q[EARLY] == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    logic [2047:0] sums, sums_after;
    for (genvar i = 0; i < 4; i = i + 1) begin : g_bank
        for (genvar j = 0; j < 16; j = j + 1) begin : g_lane
            localparam int unsigned ELEMENT = 16 * i + j;
            logic [8:0]  early_code;
            logic [31:0] code;
            assign early_code = early_is_10 ? data_q[EARLY][10*ELEMENT +: 9] : {1'b0, data_q[EARLY][8*ELEMENT +: 8]};
            always_comb begin
                case (format_q[CODE])
                    plait_regmap_pkg::ROW_FORMAT_BF16: code = {16'b0, data_q[CODE][16*(ELEMENT%32) +: 16]};
                    plait_regmap_pkg::ROW_FORMAT_F32: code = data_q[CODE][32*j +: 32];
                    plait_regmap_pkg::ROW_FORMAT_LOGFMT10: code = {22'b0, data_q[CODE][10*ELEMENT +: 10]};
                    default: code = {24'b0, data_q[CODE][8*ELEMENT +: 8]};
                endcase
            end
            plait_reduce_lane u_lane (
                .clk_i(beat_clk), .logfmt_clk_i(logfmt_clk), .early_is_10_i(early_is_10),
                .early_code_i(early_code), .early_step_i(next_q[EARLY][i] ? steps[63:32] : steps[31:0]),
                .late_min_i(next_q[MIN][i] ? scales_q[MIN][46:32] : scales_q[MIN][14:0]), .format_i(format_q[CODE]), .code_i(code),
                .scale_i(next_q[CODE][i] ? scales_q[CODE][63:32] : scales_q[CODE][31:0]),
                .is_sound_i(next_q[CODE][i] ? sound[1] : sound[0]), .weight_i(weight_q[WEIGHT]), .is_first_i(value_first),
                .sum_i(sums[32*ELEMENT +: 32]), .sum_o(sums_after[32*ELEMENT +: 32]));
        end
        plait_ram #(.WORDS(PAGES * PAGE_ELEMENTS / 64), .BITS(512)) u_sums (
            .clk_i(beat_clk), .read_i(valid_q[READ]), .read_address_i(read_words[WORD_BITS*i +: WORD_BITS]),
            .data_o(sums[512*i +: 512]), .write_i(valid_q[VALUE] && !value_gives && value_banks[i]),
            .write_address_i(value_words[WORD_BITS*i +: WORD_BITS]), .data_i(sums_after[512*i +: 512]));
    end

    // Result: half a word of sums a beat, zeros where there was no row.
    logic          gives, can_give;
    logic [1023:0] half;
    logic [7:0]    unused_status;
    assign gives = valid_q[VALUE] && value_gives;
    assign advance = !gives || can_give;
    assign half = value_first ? '0 : value_upper ? sums[2047:1024] : sums[1023:0];
    plait_quantise #(.ELEMENT_BITS(32), .MAX_ELEMENTS(SUM_PAGES * PAGE_ELEMENTS)) u_result (
        .clk_i, .rst_ni, .cmd_valid_i(announces), .cmd_ready_o(can_announce), .cmd_format_i(format), .cmd_elements_i(32'(elements)),
        .cmd_tag_i(32'(sum)), .row_valid_i(gives), .row_ready_o(can_give), .row_data_i(half), .rsp_valid_o(result_valid_o),
        .rsp_ready_i(result_ready_i), .rsp_data_o(result_data_o), .rsp_bytes_o(result_bytes_o), .rsp_scales_o(result_scales_o),
        .rsp_last_o(result_last_o), .rsp_tag_o(result_sum_o), .rsp_status_o(unused_status), .rsp_non_finite_o(result_non_finite_o));
endmodule
