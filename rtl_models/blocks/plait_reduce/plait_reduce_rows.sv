// Carries out the jobs one after the other, without a gap: makes beats for the lanes out of the words of rows, or out of nothing where a
// result is given. A row's scales come before its codes, each beginning a word; a word of scales takes a cycle as one of codes.
//
// Sums lie in words of 64 elements, in four banks of 16. A beat goes to some of the banks, at one word or, LogFMT-10, at two
// that follow each other, since 64 bytes of it are 51.2 elements: the first four words of five give 48 and leave a rest.
module plait_reduce_rows #(
    parameter int unsigned SUMS = 256,
    parameter int unsigned PAGES = 1024,
    parameter int unsigned PAGE_ELEMENTS = 512,
    localparam int unsigned SUM_PAGES = 8,
    localparam int unsigned SUM_BITS = $clog2(SUMS),
    localparam int unsigned PAGE_BITS = $clog2(PAGES),
    localparam int unsigned COUNT_BITS = $clog2(SUM_PAGES * PAGE_ELEMENTS + 1),
    localparam int unsigned WORD_BITS = PAGE_BITS + $clog2(PAGE_ELEMENTS / 64)
) (
    input  logic                           clk_i,
    input  logic                           rst_ni,
    input  logic                           advance_i,

    input  logic                           job_valid_i,    // as plait_reduce_turns says
    output logic                           job_ready_o,
    input  logic [1:0]                     job_kind_i,
    input  logic                           job_first_i,
    input  logic [SUM_BITS-1:0]            job_sum_i,
    input  logic [7:0]                     job_format_i,
    input  logic [31:0]                    job_weight_i,
    input  logic [COUNT_BITS-1:0]          job_elements_i,
    input  logic [SUM_PAGES*PAGE_BITS-1:0] job_pages_i,

    input  logic                           row_valid_i,
    output logic                           row_ready_o,
    input  logic [511:0]                   row_data_i,

    output logic                           result_valid_o,  // before the first beat of a result; otherwise as the job says
    input  logic                           result_ready_i,

    output logic                           beat_valid_o,
    output logic                           beat_gives_o,    // of a result
    output logic                           beat_first_o,    // nothing has been added so far
    output logic                           beat_upper_o,    // result: the upper 32 elements of the word
    output logic [3:0]                     beat_banks_o,
    output logic [4*WORD_BITS-1:0]         beat_words_o,    // of each bank
    output logic [639:0]                   beat_data_o,
    output logic [7:0]                     beat_format_o,
    output logic [63:0]                    beat_scales_o,   // of the block of the first element, and of the next
    output logic [3:0]                     beat_next_o,     // banks whose elements are of the next block
    output logic [31:0]                    beat_weight_o,

    output logic                           page_valid_o,
    output logic [PAGE_BITS-1:0]           page_o,
    output logic                           left_valid_o,
    output logic [SUM_BITS-1:0]            left_sum_o,
    output logic                           left_dropped_o
);
    localparam int unsigned BLOCKS = SUM_PAGES * PAGE_ELEMENTS / plait_regmap_pkg::SCALE_BLOCK_ELEMENTS;
    localparam int unsigned BLOCK_BITS = $clog2(BLOCKS);
    localparam int unsigned CHUNK_BITS = $clog2(SUM_PAGES * PAGE_ELEMENTS / 16);  // a chunk is 16 elements
    localparam int unsigned PAGE_CHUNK_BITS = $clog2(PAGE_ELEMENTS / 16);

    logic is_row, is_result, is_drop, is_short_scale;
    assign is_row = job_kind_i == 2'd0;
    assign is_result = job_kind_i == 2'd1;
    assign is_drop = job_kind_i == 2'd2;
    assign is_short_scale = job_format_i == plait_regmap_pkg::ROW_FORMAT_E4M3_UE8M0 || job_format_i == plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0;

    // How far the job is.
    logic                  begun_q, unused_is_known;
    logic [COUNT_BITS+1:0] code_bytes, words_left_q, words_left;
    logic [COUNT_BITS-1:0] scale_bytes, scale_words_left_q, scale_words_left;
    logic [CHUNK_BITS-1:0] chunk_q, chunk;
    logic [CHUNK_BITS:0]   chunks;
    plait_row_bytes #(.ELEMENT_COUNT_BITS(COUNT_BITS)) u_bytes (
        .format_i(job_format_i), .elements_i(job_elements_i), .is_known_o(unused_is_known), .code_bytes_o(code_bytes),
        .scale_bytes_o(scale_bytes));
    assign words_left = begun_q ? words_left_q : (COUNT_BITS + 2)'((COUNT_BITS + 3)'(code_bytes) + (COUNT_BITS + 3)'(63) >> 6);
    assign scale_words_left = begun_q ? scale_words_left_q : COUNT_BITS'((COUNT_BITS + 1)'(scale_bytes) + (COUNT_BITS + 1)'(63) >> 6);
    assign chunk = begun_q ? chunk_q : '0;
    assign chunks = (CHUNK_BITS + 1)'((COUNT_BITS + 1)'(job_elements_i) + (COUNT_BITS + 1)'(15) >> 4);

    logic works, loads_scales, is_last_word, makes_beat, ends;
    assign row_ready_o = advance_i && job_valid_i && is_row;
    assign loads_scales = is_row && scale_words_left != '0;
    assign is_last_word = words_left == (COUNT_BITS + 2)'(1);
    assign result_valid_o = advance_i && job_valid_i && is_result && !begun_q;
    assign works = advance_i && job_valid_i
        && (is_row ? row_valid_i : is_drop || begun_q || result_ready_i);
    assign makes_beat = works && !is_drop && !loads_scales;

    // Chunks of this beat, and where they lie. For a dropped sum a beat is a page.
    logic                    is_logfmt10;
    logic [2:0]              phase_q, phase, count;
    logic [CHUNK_BITS:0]     after;
    logic [3:0]              banks, next;
    logic [CHUNK_BITS-3:0]   index;
    logic [WORD_BITS-1:0]    word, word_after;
    assign is_logfmt10 = job_format_i == plait_regmap_pkg::ROW_FORMAT_LOGFMT10;
    assign phase = begun_q ? phase_q : '0;
    always_comb begin
        count = 3'd4;
        if (is_result || job_format_i == plait_regmap_pkg::ROW_FORMAT_BF16) count = 3'd2;
        else if (job_format_i == plait_regmap_pkg::ROW_FORMAT_F32) count = 3'd1;
        else if (is_logfmt10 && !is_last_word && phase != 3'd4) count = 3'd3;
    end
    assign after = (CHUNK_BITS + 1)'(chunk) + (is_drop ? (CHUNK_BITS + 1)'(PAGE_ELEMENTS / 16) : (CHUNK_BITS + 1)'(count));
    assign ends = works && !loads_scales && (is_row ? is_last_word : after >= chunks);
    for (genvar i = 0; i < 4; i = i + 1) begin : g_bank
        logic [1:0]          place;   // of the bank's chunk in the beat
        logic [CHUNK_BITS:0] number;
        assign place = 2'(i) - chunk[1:0];
        assign number = (CHUNK_BITS + 1)'(chunk) + (CHUNK_BITS + 1)'(place);
        assign banks[i] = 3'(place) < count && number < chunks;
        assign next[i] = number[3] != chunk[3];
    end
    assign index = chunk[CHUNK_BITS-1:2];
    plait_reduce_place #(.PAGES(PAGES), .PAGE_ELEMENTS(PAGE_ELEMENTS)) u_word (.pages_i(job_pages_i), .index_i(index), .word_o(word));
    plait_reduce_place #(.PAGES(PAGES), .PAGE_ELEMENTS(PAGE_ELEMENTS)) u_word_after (
        .pages_i(job_pages_i), .index_i(index + 1'b1), .word_o(word_after));

    // LogFMT-10: what the words before this one left, and all of it turned to its banks. A word adds 32 bits to the rest.
    logic [127:0] rest_q;
    logic [639:0] joined, data;
    assign joined = phase == '0 ? {128'b0, row_data_i} : {512'b0, rest_q} | ({128'b0, row_data_i} << {phase, 5'b0});
    always_comb begin
        data = joined;
        if (is_logfmt10) begin
            case (chunk[1:0])
                2'd1: data = {joined[479:0], joined[639:480]};
                2'd2: data = {joined[319:0], joined[639:320]};
                2'd3: data = {joined[159:0], joined[639:160]};
                default: ;
            endcase
        end
    end

    // Scales, as they lie in the row.
    logic [31:0]           scales_q [BLOCKS];
    logic                  second_scale_word_q, second_scale_word;
    logic [BLOCK_BITS-1:0] block;
    logic [63:0]           raw, scales;
    assign second_scale_word = begun_q && second_scale_word_q;
    assign block = BLOCK_BITS'(chunk >> 3);
    assign raw = {scales_q[block + 1'b1], scales_q[block]};
    for (genvar i = 0; i < 2; i = i + 1) begin : g_scale
        logic [7:0] power;
        assign power = raw[32*i +: 8];
        always_comb begin
            scales[32*i +: 32] = raw[32*i +: 32];
            if (is_short_scale)
                scales[32*i +: 32] = power == 8'hff ? 32'h7fc00000 : power == '0 ? 32'h00400000 : {1'b0, power, 23'b0};
        end
    end
    always_ff @(posedge clk_i) if (works && loads_scales) begin
        for (int unsigned i = 0; i < BLOCKS; i = i + 1) begin
            if (is_short_scale) scales_q[i] <= {24'b0, row_data_i[8*(i%64) +: 8]};
            else if (second_scale_word == 1'(i / 16)) scales_q[i] <= row_data_i[32*(i%16) +: 32];
        end
    end

    assign job_ready_o = ends;
    assign left_valid_o = ends && !is_row;
    assign left_sum_o = job_sum_i;
    assign left_dropped_o = is_drop;
    assign page_valid_o = works && !is_row && (ends || after[PAGE_CHUNK_BITS-1:0] == '0);
    assign page_o = word[WORD_BITS-1 -: PAGE_BITS];

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            begun_q <= 1'b0;
            beat_valid_o <= 1'b0;
        end else begin
            if (works) begun_q <= !ends;
            if (advance_i) beat_valid_o <= makes_beat;
        end
        if (works) begin
            scale_words_left_q <= loads_scales ? scale_words_left - 1'b1 : scale_words_left;
            words_left_q <= loads_scales ? words_left : words_left - 1'b1;
            second_scale_word_q <= loads_scales;
            chunk_q <= loads_scales ? chunk : CHUNK_BITS'(after);
            phase_q <= loads_scales || !is_logfmt10 || phase == 3'd4 ? '0 : phase + 1'b1;
            rest_q <= joined[607:480];
        end
        if (makes_beat) begin
            beat_gives_o <= is_result;
            beat_first_o <= job_first_i;
            beat_upper_o <= chunk[1];
            beat_banks_o <= banks;
            for (int unsigned i = 0; i < 4; i = i + 1) beat_words_o[WORD_BITS*i +: WORD_BITS] <= 2'(i) < chunk[1:0] ? word_after : word;
            beat_data_o <= data;
            beat_format_o <= job_format_i;
            beat_scales_o <= scales;
            beat_next_o <= next;
            beat_weight_o <= job_weight_i;
        end
    end
endmodule
