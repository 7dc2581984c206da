// From reset on, whatever commands come and however answers are held up: each command has one answer, which stays until it is taken; a
// watched release that waits is released by the first placement that reaches what it requires (or dropped by a reset), once, and
// by nothing else; never do more wait than there are places.
module plait_order_proof #(
    localparam int unsigned COUNT_BITS = 2,
    localparam int unsigned TAG_BITS = 1,
    localparam int unsigned RELEASES = 2
) (
    input logic                  clk_i,
    input logic                  cmd_valid_i,
    input logic [7:0]            cmd_opcode_i,
    input logic [31:0]           cmd_counter_i,
    input logic [COUNT_BITS-1:0] cmd_count_i,
    input logic [TAG_BITS-1:0]   cmd_tag_i,
    input logic                  rsp_ready_i
);
    (* anyconst *) logic [TAG_BITS-1:0] watched;

    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic                  cmd_ready, rsp_valid, is_tag, kept;
    logic [TAG_BITS-1:0]   tag;
    logic [7:0]            status;
    logic [COUNT_BITS-1:0] placed;
    logic [1:0]            waiting;

    plait_order #(.COUNTERS(2), .RELEASES(RELEASES), .COUNT_BITS(COUNT_BITS), .TAG_BITS(TAG_BITS)) u_order (
        .clk_i, .rst_ni(rst_n), .cmd_valid_i, .cmd_ready_o(cmd_ready), .cmd_opcode_i, .cmd_counter_i, .cmd_count_i, .cmd_tag_i,
        .rsp_valid_o(rsp_valid), .rsp_ready_i, .rsp_is_tag_o(is_tag), .rsp_tag_o(tag), .rsp_status_o(status), .rsp_kept_o(kept),
        .rsp_placed_o(placed), .rsp_waiting_o(waiting));

    logic given, taken, ended, ok, is_watched;
    assign given = cmd_valid_i && cmd_ready && rst_n;
    assign taken = rsp_valid && rsp_ready_i && rst_n;
    assign ended = taken && !is_tag;
    assign ok = ended && status == plait_regmap_pkg::STATUS_OK;

    // Commands without an answer yet, the oldest first: opcode, counter, count, and whether it is the watched release.
    localparam int unsigned BITS = 3 + 1 + COUNT_BITS + 1;
    logic [BITS-1:0]       first_q, second_q, command;
    logic [1:0]            count = '0;
    logic [2:0]            opcode;
    logic                  counter;
    logic [COUNT_BITS-1:0] amount;
    assign is_watched = cmd_opcode_i == plait_regmap_pkg::ORDER_OPCODE_RELEASE && cmd_tag_i == watched;
    assign command = {cmd_opcode_i[2:0], cmd_counter_i[0], cmd_count_i, is_watched};
    logic watched_answers;
    assign {opcode, counter, amount, watched_answers} = first_q;

    always_ff @(posedge clk_i) begin
        if (ended) first_q <= second_q;
        if (given) begin
            if (count == 2'(ended)) first_q <= command;
            else second_q <= command;
        end
        count <= count + 2'(given) - 2'(ended);
    end

    // The watched release, as the answers tell it, and how many wait.
    logic                  was_given = 1'b0, waits = 1'b0, left = 1'b0;
    logic                  at_counter, must_leave;
    logic [COUNT_BITS-1:0] required;
    logic [1:0]            expected = '0;
    assign must_leave = waits && counter == at_counter
        && ((opcode == plait_regmap_pkg::ORDER_OPCODE_PLACE && placed >= required) || opcode == plait_regmap_pkg::ORDER_OPCODE_RESET);

    always_ff @(posedge clk_i) begin
        if (given && is_watched) was_given <= 1'b1;
        if (taken && is_tag && tag == watched) left <= 1'b1;
        if (taken) expected <= expected + 2'(!is_tag && kept) - 2'(is_tag);
        if (ended) begin
            left <= 1'b0;
            if (left) waits <= 1'b0;
            if (ok && watched_answers && kept) begin
                waits <= 1'b1;
                at_counter <= counter;
                required <= amount;
            end
        end
    end

    logic was_held = 1'b0;
    logic [1+TAG_BITS+8+1+COUNT_BITS+2-1:0] answer, held;
    assign answer = {is_tag, tag, status, kept, placed, waiting};
    always_ff @(posedge clk_i) begin
        was_held <= rst_n && rsp_valid && !rsp_ready_i;
        held <= answer;
    end

    always_comb begin
        assume (cmd_opcode_i <= 4 && cmd_counter_i <= 2);  // one that is not allowed of each
        if (was_given) assume (!(cmd_valid_i && is_watched));
        if (rst_n) begin
            assert (count <= 2);
            if (rsp_valid) assert (count != '0);
            if (was_held) assert (rsp_valid && answer == held);
        end
        if (ended) begin
            assert (left == (ok && must_leave));
            assert (waiting == expected + 2'(kept) && waiting <= RELEASES);
            if (watched_answers && ok) assert (kept == (placed < amount));
        end
        if (taken && is_tag) assert (expected != '0);
        if (taken && is_tag && tag == watched) assert (waits && !left);
    end
endmodule
