// Takes turns: which rows are added when, and which pages sums lie in. Orders what the rest of the block does as jobs: add a row,
// give a result, drop a sum. A command takes three cycles, one more for each page that it takes, and two for each row that it
// hands out.
module plait_reduce_turns #(
    parameter int unsigned SUMS = 256,
    parameter int unsigned PAGES = 1024,
    parameter int unsigned PAGE_ELEMENTS = 512,
    localparam int unsigned SUM_PAGES = 8,
    localparam int unsigned SUM_BITS = $clog2(SUMS),
    localparam int unsigned PAGE_BITS = $clog2(PAGES),
    localparam int unsigned COUNT_BITS = $clog2(SUM_PAGES * PAGE_ELEMENTS + 1)
) (
    input  logic                           clk_i,
    input  logic                           rst_ni,

    input  logic                           cmd_valid_i,
    output logic                           cmd_ready_o,
    input  logic [7:0]                     cmd_opcode_i,
    input  logic [31:0]                    cmd_sum_i,
    input  logic [7:0]                     cmd_position_i,
    input  logic [7:0]                     cmd_format_i,
    input  logic [31:0]                    cmd_length_i,
    input  logic [31:0]                    cmd_value_i,

    output logic                           rsp_valid_o,
    input  logic                           rsp_ready_i,
    output logic                           rsp_is_handle_o,
    output logic [31:0]                    rsp_handle_o,
    output logic [7:0]                     rsp_status_o,

    output logic                           fetch_valid_o,
    input  logic                           fetch_ready_i,
    output logic [31:0]                    fetch_handle_o,

    output logic                           job_valid_o,
    input  logic                           job_ready_i,
    output logic [1:0]                     job_kind_o,      // 0: add a row, 1: give the result, 2: drop the sum
    output logic                           job_first_o,     // nothing has been added so far
    output logic [SUM_BITS-1:0]            job_sum_o,
    output logic [7:0]                     job_format_o,    // of the row or of the result
    output logic [31:0]                    job_weight_o,
    output logic [COUNT_BITS-1:0]          job_elements_o,
    output logic [SUM_PAGES*PAGE_BITS-1:0] job_pages_o,

    input  logic                           page_valid_i,    // comes back
    input  logic [PAGE_BITS-1:0]           page_i,
    input  logic                           left_valid_i,    // a result has been given or a sum dropped
    input  logic [SUM_BITS-1:0]            left_sum_i,
    input  logic                           left_dropped_i
);
    localparam int unsigned ROWS = 32;  // that a sum may have
    localparam int unsigned PAGE_COUNT_BITS = $clog2(SUM_PAGES + 1);
    localparam logic [31:0] ONE = 32'h3f800000;

    typedef struct packed {
        logic [COUNT_BITS-1:0]          elements;
        logic [7:0]                     format;
        logic [5:0]                     contributions;
        logic [5:0]                     turn;           // the next position
        logic                           has_row;        // one has been handed out
        logic [ROWS-1:0]                arrived;
        logic [ROWS-1:0]                skipped;
        logic [ROWS-1:0]                weighed;
        logic [SUM_PAGES*PAGE_BITS-1:0] pages;
    } sum_t;

    localparam logic [2:0] IDLE = 3'd0;
    localparam logic [2:0] CHECK = 3'd1;   // the sum is there
    localparam logic [2:0] TAKE = 3'd2;    // pages, one after the other
    localparam logic [2:0] LOOK = 3'd3;    // at the position whose turn it is
    localparam logic [2:0] HAND = 3'd4;    // its row out, or its handle back
    localparam logic [2:0] END = 3'd5;     // the sum is complete or given up
    localparam logic [2:0] ANSWER = 3'd6;
    logic [2:0] state_q, state;

    logic [7:0]          opcode_q, position_q, format_q;
    logic [31:0]         number_q, length_q, value_q;
    logic [SUM_BITS-1:0] index;
    logic                accepted, is_open, is_weigh, is_add, is_skip, is_close;
    assign cmd_ready_o = state_q == IDLE;
    assign accepted = cmd_valid_i && cmd_ready_o;
    assign index = number_q[SUM_BITS-1:0];
    assign is_open = opcode_q == plait_regmap_pkg::REDUCE_OPCODE_OPEN;
    assign is_weigh = opcode_q == plait_regmap_pkg::REDUCE_OPCODE_WEIGH;
    assign is_add = opcode_q == plait_regmap_pkg::REDUCE_OPCODE_ADD;
    assign is_skip = opcode_q == plait_regmap_pkg::REDUCE_OPCODE_SKIP;
    assign is_close = opcode_q == plait_regmap_pkg::REDUCE_OPCODE_CLOSE;

    // Sums: written back with the answer. Weights and handles by sum and position.
    sum_t                  stored, sum_q, sum;
    logic                  store, write_entry, write_weight;
    logic [7:0]            entry_format;
    logic [31:0]           entry_handle, weight;
    logic [SUM_BITS+5-1:0] write_place, read_place;
    assign write_place = {index, position_q[4:0]};
    assign read_place = {index, sum_q.turn[4:0]};
    plait_ram #(.WORDS(SUMS), .BITS($bits(stored))) u_sums (
        .clk_i, .read_i(accepted), .read_address_i(cmd_sum_i[SUM_BITS-1:0]), .data_o(stored), .write_i(store), .write_address_i(index),
        .data_i(sum));
    plait_ram #(.WORDS(SUMS * ROWS), .BITS(40)) u_entries (
        .clk_i, .read_i(state_q == LOOK), .read_address_i(read_place), .data_o({entry_format, entry_handle}), .write_i(write_entry),
        .write_address_i(write_place), .data_i({format_q, value_q}));
    plait_ram #(.WORDS(SUMS * ROWS), .BITS(32)) u_weights (
        .clk_i, .read_i(state_q == LOOK), .read_address_i(read_place), .data_o(weight), .write_i(write_weight),
        .write_address_i(write_place), .data_i(value_q));

    logic [PAGE_BITS:0]         free_pages;
    logic [PAGE_BITS-1:0]       free_page;
    logic                       take_page;
    logic [PAGE_COUNT_BITS-1:0] pages_needed, pages_taken_q;
    plait_reduce_pages #(.PAGES(PAGES)) u_pages (
        .clk_i, .rst_ni, .free_o(free_pages), .page_o(free_page), .take_i(take_page), .give_back_i(page_valid_i), .given_page_i(page_i));

    // Sums that are being made, those that leave, and how many of the latter are dropped.
    logic [SUMS-1:0]     open_q, leaving_q;
    logic [SUM_BITS:0]   drops_q;
    logic                is_known, is_position, is_here, is_format, is_length, has_arrived, waits;
    logic [COUNT_BITS-1:0] elements, scale_bytes;
    logic [COUNT_BITS+1:0] code_bytes;
    assign is_known = number_q < SUMS;
    assign is_here = open_q[index];
    assign is_position = position_q < {2'b0, stored.contributions};
    assign has_arrived = stored.arrived[position_q[4:0]];
    // An open waits for sums that are dropped: their pages, and their number, are as good as free.
    assign waits = is_open && drops_q != '0;
    assign elements = is_open ? COUNT_BITS'(length_q) : stored.elements;
    assign pages_needed = PAGE_COUNT_BITS'((COUNT_BITS + 1)'(elements) + (COUNT_BITS + 1)'(PAGE_ELEMENTS - 1) >> $clog2(PAGE_ELEMENTS));
    assign is_length = is_open ? length_q != '0 && length_q <= SUM_PAGES * PAGE_ELEMENTS
                               : length_q == 32'(code_bytes) + 32'(scale_bytes);
    plait_row_bytes #(.ELEMENT_COUNT_BITS(COUNT_BITS)) u_bytes (
        .format_i(format_q), .elements_i(elements), .is_known_o(is_format), .code_bytes_o(code_bytes), .scale_bytes_o(scale_bytes));

    logic [7:0] status, status_q;
    always_comb begin
        status = plait_regmap_pkg::STATUS_OK;
        if (opcode_q > plait_regmap_pkg::REDUCE_OPCODE_CLOSE) status = plait_regmap_pkg::STATUS_INVALID_OPCODE;
        else if (!is_known) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
        else if (is_open) begin
            if (!is_format || position_q > 8'(ROWS)) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            else if (!is_length) status = plait_regmap_pkg::STATUS_INVALID_LENGTH;
            else if (is_here || leaving_q[index]) status = plait_regmap_pkg::STATUS_INVALID_STATE;
            else if ((PAGE_BITS + 5)'(pages_needed) > (PAGE_BITS + 5)'(free_pages)) status = plait_regmap_pkg::STATUS_LIMIT_EXCEEDED;
        end else if (!is_here) status = plait_regmap_pkg::STATUS_INVALID_STATE;
        else if (!is_close) begin
            if (!is_position || (is_add && !is_format)) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            else if (is_weigh ? position_q < {2'b0, stored.turn} : has_arrived) status = plait_regmap_pkg::STATUS_INVALID_STATE;
            else if (is_add && !is_length) status = plait_regmap_pkg::STATUS_INVALID_LENGTH;
        end
    end

    logic [ROWS-1:0] position_bit;
    logic            is_ok, is_turn, is_skipped, is_complete, hands, hands_handle, can_answer, ends;
    assign position_bit = ROWS'(1) << position_q[4:0];
    assign is_ok = status == plait_regmap_pkg::STATUS_OK;
    assign is_complete = sum_q.turn == sum_q.contributions;
    assign is_turn = sum_q.arrived[sum_q.turn[4:0]];
    assign is_skipped = sum_q.skipped[sum_q.turn[4:0]];
    assign can_answer = !rsp_valid_o || rsp_ready_i;
    // A row goes to who fetches it and to the jobs at once.
    assign fetch_valid_o = state_q == HAND && !is_close && job_ready_i;
    assign fetch_handle_o = entry_handle;
    assign hands = fetch_valid_o && fetch_ready_i;
    assign hands_handle = state_q == HAND && is_close && can_answer;
    assign ends = state_q == END && job_ready_i;

    assign job_valid_o = hands || ends;
    assign job_kind_o = state_q != END ? 2'd0 : is_close ? 2'd2 : 2'd1;
    assign job_first_o = !sum_q.has_row;
    assign job_sum_o = index;
    assign job_format_o = state_q == END ? sum_q.format : entry_format;
    assign job_weight_o = sum_q.weighed[sum_q.turn[4:0]] ? weight : ONE;
    assign job_elements_o = sum_q.elements;
    assign job_pages_o = sum_q.pages;

    always_comb begin
        state = state_q;
        sum = state_q == CHECK ? stored : sum_q;
        write_entry = 1'b0;
        write_weight = 1'b0;
        take_page = 1'b0;
        store = 1'b0;
        case (state_q)
            IDLE: if (cmd_valid_i) state = CHECK;
            CHECK: if (!waits) begin
                state = ANSWER;
                if (is_ok && is_open) begin
                    state = TAKE;
                    sum = '0;
                    sum.elements = elements;
                    sum.format = format_q;
                    sum.contributions = position_q[5:0];
                end else if (is_ok && is_weigh) begin
                    write_weight = 1'b1;
                    sum.weighed = stored.weighed | position_bit;
                end else if (is_ok && is_close) begin
                    state = LOOK;
                end else if (is_ok) begin
                    write_entry = is_add;
                    sum.arrived = stored.arrived | position_bit;
                    if (is_skip) sum.skipped = stored.skipped | position_bit;
                    if (position_q == {2'b0, stored.turn}) state = LOOK;
                end
            end
            TAKE: begin
                take_page = 1'b1;
                sum.pages[PAGE_BITS*pages_taken_q +: PAGE_BITS] = free_page;
                if (pages_taken_q + 1'b1 == pages_needed) state = sum_q.contributions == '0 ? END : ANSWER;
            end
            LOOK:
                if (is_complete) state = END;
                else if (is_turn && !is_skipped) state = HAND;
                else if (is_turn || is_close) sum.turn = sum_q.turn + 1'b1;
                else state = ANSWER;
            HAND: if (hands || hands_handle) begin
                state = LOOK;
                sum.turn = sum_q.turn + 1'b1;
                sum.has_row = 1'b1;
            end
            END: if (job_ready_i) state = ANSWER;
            default: if (can_answer) begin
                state = IDLE;
                store = status_q == plait_regmap_pkg::STATUS_OK;
            end
        endcase
    end

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            state_q <= IDLE;
            open_q <= '0;
            leaving_q <= '0;
            drops_q <= '0;
            rsp_valid_o <= 1'b0;
        end else begin
            state_q <= state;
            if (state_q == CHECK && is_open && state == TAKE) open_q[index] <= 1'b1;
            if (left_valid_i) leaving_q[left_sum_i] <= 1'b0;
            if (ends) begin
                open_q[index] <= 1'b0;
                leaving_q[index] <= 1'b1;
            end
            drops_q <= drops_q + (SUM_BITS + 1)'(ends && is_close) - (SUM_BITS + 1)'(left_valid_i && left_dropped_i);
            if (can_answer) rsp_valid_o <= hands_handle || state_q == ANSWER;
        end
        if (accepted) begin
            opcode_q <= cmd_opcode_i;
            number_q <= cmd_sum_i;
            position_q <= cmd_position_i;
            format_q <= cmd_format_i;
            length_q <= cmd_length_i;
            value_q <= cmd_value_i;
        end
        sum_q <= sum;
        pages_taken_q <= take_page ? pages_taken_q + 1'b1 : '0;
        if (state_q == CHECK) status_q <= status;
        if (can_answer) begin
            rsp_is_handle_o <= hands_handle;
            rsp_handle_o <= hands_handle ? entry_handle : '0;
            rsp_status_o <= hands_handle ? plait_regmap_pkg::STATUS_OK : status_q;
        end
    end
endmodule
