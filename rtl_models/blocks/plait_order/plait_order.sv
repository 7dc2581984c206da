// Counters of what has been placed, and releases that wait until a counter reaches what they require: firmware/engines' OrderTable.
// A command a cycle as long as none has to walk: a placement that releases takes a cycle more and one for each release; a
// release that waits, one for each that waits before it on its counter, and two more. Answers come in order; a command's released
// (or dropped) tags precede its own answer, which comes 2 cycles after the command when nothing walks or is held up.
//
//   fetch    the counter is read from memory
//   execute  compared and written back, or the list of what waits for it is walked
//   answer   registers
module plait_order #(
    parameter int unsigned COUNTERS = plait_regmap_pkg::MAX_QUEUES,
    parameter int unsigned RELEASES = 256,  // that may wait, over all counters
    parameter int unsigned COUNT_BITS = 64,
    parameter int unsigned TAG_BITS = 64,
    localparam int unsigned WAITING_BITS = $clog2(RELEASES + 1)
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,  // synchronous; all counts are zero and nothing waits

    input  logic                    cmd_valid_i,
    output logic                    cmd_ready_o,
    input  logic [7:0]              cmd_opcode_i,   // order_opcode_e
    input  logic [31:0]             cmd_counter_i,
    input  logic [COUNT_BITS-1:0]   cmd_count_i,    // place: the amount; release: what is required
    input  logic [TAG_BITS-1:0]     cmd_tag_i,      // release

    output logic                    rsp_valid_o,
    input  logic                    rsp_ready_i,
    output logic                    rsp_is_tag_o,   // a release of the command whose answer follows: only the tag is valid
    output logic [TAG_BITS-1:0]     rsp_tag_o,
    output logic [7:0]              rsp_status_o,   // status_e; other than ok: nothing changed
    output logic                    rsp_kept_o,     // release: it waits
    output logic [COUNT_BITS-1:0]   rsp_placed_o,   // the count after the command, when the status is ok
    output logic [WAITING_BITS-1:0] rsp_waiting_o   // releases that wait after the command, over all counters
);
    if (COUNTERS < 2) $fatal(1, "plait_order: COUNTERS is %0d, expected at least 2", COUNTERS);
    if (RELEASES < 2 || RELEASES > 4096 || RELEASES != 1 << $clog2(RELEASES))
        $fatal(1, "plait_order: RELEASES is %0d, expected a power of two, 2 .. 4096", RELEASES);
    if (COUNT_BITS < 2) $fatal(1, "plait_order: COUNT_BITS is %0d, expected at least 2", COUNT_BITS);

    localparam int unsigned INDEX_BITS = $clog2(COUNTERS);
    localparam int unsigned PLACE_BITS = $clog2(RELEASES);

    typedef logic [COUNT_BITS-1:0] count_t;
    typedef logic [PLACE_BITS-1:0] place_t;

    typedef struct packed {
        count_t placed;
        logic   has_first;       // something waits:
        place_t first;           // where it lies, and what it requires
        count_t first_required;
    } counter_t;

    typedef struct packed {
        count_t              required;
        logic [TAG_BITS-1:0] tag;
        logic                has_next;  // further ones require as much or more
        place_t              next;
    } release_t;

    // A walk looks at the list's releases one after the other.
    localparam logic [1:0] EXECUTE = 2'd0;  // no walk
    localparam logic [1:0] POP = 2'd1;      // gives up releases from the first on
    localparam logic [1:0] SEEK = 2'd2;     // looks for the last one that a new one must follow
    localparam logic [1:0] LINK = 2'd3;     // hangs the new one behind it
    logic [1:0] walk_q, walk;

    logic answers, answers_tag, can_answer, done;
    assign can_answer = !rsp_valid_o || rsp_ready_i;

    // Execute.
    logic                valid_q;
    logic [7:0]          opcode_q;
    logic [31:0]         number_q;
    count_t              count_q;
    logic [TAG_BITS-1:0] tag_q;
    logic                advance;

    assign advance = !valid_q || done;
    assign cmd_ready_o = advance;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            valid_q <= 1'b0;
            walk_q <= EXECUTE;
        end else begin
            if (advance) valid_q <= cmd_valid_i;
            walk_q <= walk;
        end
        if (advance) begin
            opcode_q <= cmd_opcode_i;
            number_q <= cmd_counter_i;
            count_q <= cmd_count_i;
            tag_q <= cmd_tag_i;
        end
    end

    // The counter: zero until it is written for the first time.
    logic [COUNTERS-1:0]   written_q;
    logic [INDEX_BITS-1:0] index;
    counter_t              stored, counter, counter_after;
    logic                  write_counter, is_known;

    assign index = number_q[INDEX_BITS-1:0];
    assign is_known = number_q < COUNTERS;
    assign counter = written_q[index] ? stored : '0;

    plait_ram #(.WORDS(COUNTERS), .BITS($bits(counter))) u_counters (
        .clk_i, .read_i(advance), .read_address_i(cmd_counter_i[INDEX_BITS-1:0]), .data_o(stored),
        .write_i(write_counter), .write_address_i(index), .data_i(counter_after));

    // The releases, and which places are free.
    logic [RELEASES-1:0]     free_q, lowest_free;
    logic [WAITING_BITS-1:0] waiting_q;
    place_t                  free_place;
    release_t                release_read, release_write;
    place_t                  read_place, write_place;
    logic                    read_release, write_release, take_place, give_place;

    assign lowest_free = free_q & (~free_q + 1'b1);
    plait_onehot_index #(.BITS(RELEASES)) u_free_place (.onehot_i(lowest_free), .index_o(free_place));

    plait_ram #(.WORDS(RELEASES), .BITS($bits(release_read))) u_releases (
        .clk_i, .read_i(read_release), .read_address_i(read_place), .data_o(release_read),
        .write_i(write_release), .write_address_i(write_place), .data_i(release_write));

    // The release that the last read was of, the one before it in the list, and whether there was one to read.
    place_t   current_q, previous_q, taken_q;
    release_t previous_release_q;
    logic     has_current_q;

    count_t count_after, target;
    logic   overflows, must_wait, is_ok, is_place, is_release, is_reset, is_pop, is_seek, pops, follows;
    assign {overflows, count_after} = {1'b0, counter.placed} + {1'b0, count_q};
    assign must_wait = counter.placed < count_q;

    logic [7:0] status;
    always_comb begin
        status = plait_regmap_pkg::STATUS_OK;
        if (opcode_q > plait_regmap_pkg::ORDER_OPCODE_READ) status = plait_regmap_pkg::STATUS_INVALID_OPCODE;
        else if (!is_known) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
        else if (opcode_q == plait_regmap_pkg::ORDER_OPCODE_PLACE && overflows) status = plait_regmap_pkg::STATUS_OUT_OF_RANGE;
        else if (opcode_q == plait_regmap_pkg::ORDER_OPCODE_RELEASE && must_wait && free_q == '0 && walk_q == EXECUTE)
            status = plait_regmap_pkg::STATUS_LIMIT_EXCEEDED;
    end

    assign is_ok = status == plait_regmap_pkg::STATUS_OK;
    assign is_place = opcode_q == plait_regmap_pkg::ORDER_OPCODE_PLACE;
    assign is_release = opcode_q == plait_regmap_pkg::ORDER_OPCODE_RELEASE;
    assign is_reset = opcode_q == plait_regmap_pkg::ORDER_OPCODE_RESET;
    assign target = is_place ? count_after : '0;
    assign is_pop = counter.has_first && (is_reset || (is_place && counter.first_required <= count_after));
    assign is_seek = is_release && must_wait && counter.has_first && counter.first_required <= count_q;
    // In a walk: the current one goes too, the new one follows it.
    assign pops = has_current_q && (is_reset || release_read.required <= target);
    assign follows = has_current_q && release_read.required <= count_q;

    always_comb begin
        walk = walk_q;
        done = 1'b0;
        answers = 1'b0;
        answers_tag = 1'b0;
        write_counter = 1'b0;
        counter_after = counter;
        read_release = 1'b0;
        read_place = counter.first;
        write_release = 1'b0;
        write_place = free_place;
        release_write = '0;
        take_place = 1'b0;
        give_place = 1'b0;
        unique case (walk_q)
            EXECUTE: if (valid_q) begin
                if (is_ok && (is_pop || is_seek)) begin
                    read_release = 1'b1;
                    walk = is_pop ? POP : SEEK;
                end else if (can_answer) begin
                    done = 1'b1;
                    answers = 1'b1;
                    write_counter = is_ok;
                    if (is_place || is_reset) counter_after.placed = target;
                    if (is_ok && is_release && must_wait) begin  // before all others
                        take_place = 1'b1;
                        write_release = 1'b1;
                        release_write.required = count_q;
                        release_write.tag = tag_q;
                        release_write.has_next = counter.has_first;
                        release_write.next = counter.first;
                        counter_after.has_first = 1'b1;
                        counter_after.first = free_place;
                        counter_after.first_required = count_q;
                    end
                end
            end
            POP: if (can_answer) begin
                answers = 1'b1;
                if (pops) begin
                    answers_tag = 1'b1;
                    give_place = 1'b1;
                    read_release = release_read.has_next;
                    read_place = release_read.next;
                end else begin
                    done = 1'b1;
                    walk = EXECUTE;
                    write_counter = 1'b1;
                    counter_after.placed = target;
                    counter_after.has_first = has_current_q;
                    counter_after.first = current_q;
                    counter_after.first_required = release_read.required;
                end
            end
            SEEK: if (follows) begin
                read_release = release_read.has_next;
                read_place = release_read.next;
            end else begin
                walk = LINK;
                take_place = 1'b1;
                write_release = 1'b1;
                release_write.required = count_q;
                release_write.tag = tag_q;
                release_write.has_next = has_current_q;
                release_write.next = current_q;
            end
            LINK: if (can_answer) begin
                done = 1'b1;
                answers = 1'b1;
                walk = EXECUTE;
                write_release = 1'b1;
                write_place = previous_q;
                release_write = previous_release_q;
                release_write.has_next = 1'b1;
                release_write.next = taken_q;
            end
        endcase
    end

    logic [WAITING_BITS-1:0] waiting;
    assign waiting = waiting_q + WAITING_BITS'(take_place) - WAITING_BITS'(give_place);

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            written_q <= '0;
            free_q <= {RELEASES{1'b1}};
            waiting_q <= '0;
        end else begin
            if (write_counter) written_q[index] <= 1'b1;
            if (take_place) free_q[free_place] <= 1'b0;
            if (give_place) free_q[current_q] <= 1'b1;
            waiting_q <= waiting;
        end
        if (take_place) taken_q <= free_place;
        if (walk_q == EXECUTE) begin
            current_q <= counter.first;
            has_current_q <= 1'b1;
        end else if (give_place || (walk_q == SEEK && follows)) begin
            previous_q <= current_q;
            previous_release_q <= release_read;
            current_q <= release_read.next;
            has_current_q <= release_read.has_next;
        end
    end

    // Answer.
    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            rsp_valid_o <= 1'b0;
        end else if (can_answer) begin
            rsp_valid_o <= answers;
        end
        if (can_answer) begin
            rsp_is_tag_o <= answers_tag;
            rsp_tag_o <= answers_tag ? release_read.tag : '0;
            rsp_status_o <= answers_tag ? plait_regmap_pkg::STATUS_OK : status;
            rsp_kept_o <= is_ok && is_release && must_wait;
            rsp_placed_o <= is_ok && !answers_tag ? counter_after.placed : '0;
            rsp_waiting_o <= waiting;
        end
    end
endmodule
