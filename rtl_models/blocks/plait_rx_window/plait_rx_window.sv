// The receive windows of all queue pairs: what firmware/engines' RxWindow is for one. A command a cycle, whatever queue pairs it
// names; answers come in order, 3 cycles after their commands while rsp_ready_i is high.
//
//   fetch    the queue pair's window is read from memory
//   update   judged and written back; the next command for it sees this
//   bitmap   what arrived from a PSN on is turned to bit 0
//   answer   registers
module plait_rx_window #(
    parameter int unsigned QUEUE_PAIRS = plait_regmap_pkg::MAX_QUEUES,
    parameter int unsigned QPN_BITS = 24,
    parameter int unsigned PSN_BITS = 24,
    parameter int unsigned RING_PACKETS = plait_regmap_pkg::MAX_WINDOW_PACKETS,      // the largest window
    parameter int unsigned LEAST_PACKETS = plait_regmap_pkg::MIN_WINDOW_PACKETS,     // the smallest one
    parameter int unsigned BITMAP_BITS = 128,
    localparam int unsigned RING_BITS = $clog2(RING_PACKETS)
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,  // synchronous; closes all queue pairs

    input  logic                   cmd_valid_i,
    output logic                   cmd_ready_o,
    input  logic [7:0]             cmd_opcode_i,          // window_opcode_e
    input  logic [QPN_BITS-1:0]    cmd_qp_i,
    input  logic [PSN_BITS-1:0]    cmd_psn_i,             // open: the first one
    input  logic [15:0]            cmd_window_packets_i,  // open

    output logic                   rsp_valid_o,
    input  logic                   rsp_ready_i,
    output logic [7:0]             rsp_status_o,          // status_e; other than ok: nothing changed, and the rest is zero
    output logic [7:0]             rsp_verdict_o,         // window_verdict_e; receive
    output logic                   rsp_advanced_o,        // receive: this packet moved the next expected PSN
    output logic                   rsp_hole_o,            // something below the highest received PSN is still missing
    output logic [PSN_BITS-1:0]    rsp_next_psn_o,
    output logic [PSN_BITS-1:0]    rsp_highest_psn_o,     // one after the highest received
    output logic [BITMAP_BITS-1:0] rsp_bitmap_o           // read: bit i says that psn + i has arrived
);
    if (QUEUE_PAIRS < 2) $fatal(1, "plait_rx_window: QUEUE_PAIRS is %0d, expected at least 2", QUEUE_PAIRS);
    if (QUEUE_PAIRS > 1 << QPN_BITS) $fatal(1, "plait_rx_window: QPN_BITS is %0d, too few to name all queue pairs", QPN_BITS);
    if (RING_PACKETS != 1 << RING_BITS || RING_PACKETS >= 1 << (PSN_BITS - 2) || RING_PACKETS > 4096)
        $fatal(1, "plait_rx_window: RING_PACKETS is %0d, expected a power of two up to 4096 and below a quarter of the PSNs", RING_PACKETS);
    if (LEAST_PACKETS < 1 || LEAST_PACKETS > RING_PACKETS)
        $fatal(1, "plait_rx_window: LEAST_PACKETS is %0d, expected 1 .. RING_PACKETS", LEAST_PACKETS);
    if (BITMAP_BITS > RING_PACKETS)
        $fatal(1, "plait_rx_window: BITMAP_BITS is %0d, expected at most RING_PACKETS", BITMAP_BITS);

    typedef logic [PSN_BITS-1:0] psn_t;

    typedef struct packed {
        logic [RING_BITS:0]      window_packets;
        psn_t                    next;
        psn_t                    highest;
        logic                    may_refuse;      // the packet accepted last can be taken back:
        psn_t                    last_accepted;
        psn_t                    highest_before;
        logic [RING_PACKETS-1:0] received;
    } window_t;

    localparam int unsigned INDEX_BITS = $clog2(QUEUE_PAIRS);

    logic advance;
    assign advance = !rsp_valid_o || rsp_ready_i;
    assign cmd_ready_o = advance;

    // Update.
    logic                fetched_q;
    logic [7:0]          opcode_q;
    logic [QPN_BITS-1:0] qp_q;
    psn_t                psn_q;
    logic [15:0]         window_packets_q;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            fetched_q <= 1'b0;
        end else if (advance) begin
            fetched_q <= cmd_valid_i;
        end
        if (advance) begin
            opcode_q <= cmd_opcode_i;
            qp_q <= cmd_qp_i;
            psn_q <= cmd_psn_i;
            window_packets_q <= cmd_window_packets_i;
        end
    end

    logic [QUEUE_PAIRS-1:0] open_q;
    logic [INDEX_BITS-1:0]  index;
    window_t                found, changed;
    psn_t                   psn_ahead;
    logic [7:0]             status, verdict;
    logic                   is_known, is_open, is_last, is_near, is_window, is_receive, advanced, write;

    assign index = qp_q[INDEX_BITS-1:0];
    assign is_known = QUEUE_PAIRS == 1 << QPN_BITS || qp_q < QPN_BITS'(QUEUE_PAIRS);
    assign is_open = is_known && open_q[index];
    assign is_last = found.may_refuse && found.last_accepted == psn_q;
    assign is_window = window_packets_q >= 16'(LEAST_PACKETS) && window_packets_q <= 16'(RING_PACKETS)
                    && (window_packets_q & (window_packets_q - 1'b1)) == '0;
    // Within a quarter of the space: the two bits that are above it agree.
    assign psn_ahead = psn_q - found.next;
    assign is_near = psn_ahead[PSN_BITS-1] == psn_ahead[PSN_BITS-2];
    assign is_receive = opcode_q == plait_regmap_pkg::WINDOW_OPCODE_RECEIVE;

    always_comb begin
        status = plait_regmap_pkg::STATUS_OK;
        unique case (opcode_q)
            plait_regmap_pkg::WINDOW_OPCODE_RECEIVE, plait_regmap_pkg::WINDOW_OPCODE_CLOSE: if (!is_open) status = plait_regmap_pkg::STATUS_INVALID_QP;
            plait_regmap_pkg::WINDOW_OPCODE_REFUSE:
                if (!is_open) status = plait_regmap_pkg::STATUS_INVALID_QP;
                else if (!is_last) status = plait_regmap_pkg::STATUS_INVALID_STATE;
            plait_regmap_pkg::WINDOW_OPCODE_READ:
                if (!is_open) status = plait_regmap_pkg::STATUS_INVALID_QP;
                else if (!is_near) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            plait_regmap_pkg::WINDOW_OPCODE_OPEN:
                if (!is_known) status = plait_regmap_pkg::STATUS_INVALID_QP;
                else if (is_open) status = plait_regmap_pkg::STATUS_INVALID_STATE;
                else if (!is_window) status = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            default: status = plait_regmap_pkg::STATUS_INVALID_OPCODE;
        endcase
    end

    psn_t                    next, highest;
    logic [RING_PACKETS-1:0] received;

    plait_rx_window_update #(
        .PSN_BITS(PSN_BITS),
        .RING_PACKETS(RING_PACKETS)
    ) u_update (
        .refuse_i(opcode_q == plait_regmap_pkg::WINDOW_OPCODE_REFUSE),
        .psn_i(psn_q),
        .window_packets_i(found.window_packets),
        .next_i(found.next),
        .highest_i(found.highest),
        .received_i(found.received),
        .highest_before_i(found.highest_before),
        .verdict_o(verdict),
        .advanced_o(advanced),
        .next_o(next),
        .highest_o(highest),
        .received_o(received)
    );

    always_comb begin
        changed = found;
        unique case (opcode_q)
            plait_regmap_pkg::WINDOW_OPCODE_OPEN: begin
                changed = '0;
                changed.window_packets = window_packets_q[RING_BITS:0];
                changed.next = psn_q;
                changed.highest = psn_q;
            end
            plait_regmap_pkg::WINDOW_OPCODE_RECEIVE, plait_regmap_pkg::WINDOW_OPCODE_REFUSE: begin
                changed.next = next;
                changed.highest = highest;
                changed.received = received;
                if (!is_receive) begin
                    changed.may_refuse = 1'b0;
                end else if (verdict == plait_regmap_pkg::WINDOW_VERDICT_ACCEPT) begin
                    changed.may_refuse = 1'b1;
                    changed.last_accepted = psn_q;
                    changed.highest_before = found.highest;
                end
            end
            default: ;
        endcase
    end

    assign write = advance && fetched_q && status == plait_regmap_pkg::STATUS_OK;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            open_q <= '0;
        end else if (write) begin
            if (opcode_q == plait_regmap_pkg::WINDOW_OPCODE_OPEN) open_q[index] <= 1'b1;
            if (opcode_q == plait_regmap_pkg::WINDOW_OPCODE_CLOSE) open_q[index] <= 1'b0;
        end
    end

    plait_ram #(
        .WORDS(QUEUE_PAIRS),
        .BITS($bits(found))
    ) u_windows (
        .clk_i,
        .read_i(advance),
        .read_address_i(cmd_qp_i[INDEX_BITS-1:0]),
        .data_o(found),
        .write_i(write),
        .write_address_i(index),
        .data_i(changed)
    );

    // Bitmap.
    logic                    updated_q, is_read_q, advanced_q, has_window_q;
    logic [7:0]              status_q, verdict_q;
    psn_t                    base_q, next_q, highest_q;
    logic [RING_BITS:0]      packets_q;
    logic [RING_PACKETS-1:0] received_q;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            updated_q <= 1'b0;
        end else if (advance) begin
            updated_q <= fetched_q;
        end
        if (advance) begin
            status_q <= status;
            verdict_q <= is_receive && status == plait_regmap_pkg::STATUS_OK ? verdict : plait_regmap_pkg::WINDOW_VERDICT_ACCEPT;
            advanced_q <= is_receive && status == plait_regmap_pkg::STATUS_OK && advanced;
            is_read_q <= opcode_q == plait_regmap_pkg::WINDOW_OPCODE_READ && status == plait_regmap_pkg::STATUS_OK;
            has_window_q <= opcode_q != plait_regmap_pkg::WINDOW_OPCODE_CLOSE && status == plait_regmap_pkg::STATUS_OK;
            base_q <= psn_q;
            next_q <= changed.next;
            highest_q <= changed.highest;
            packets_q <= changed.window_packets;
            received_q <= changed.received;
        end
    end

    logic [BITMAP_BITS-1:0] bitmap;

    plait_rx_window_bitmap #(
        .PSN_BITS(PSN_BITS),
        .RING_PACKETS(RING_PACKETS),
        .BITMAP_BITS(BITMAP_BITS)
    ) u_bitmap (
        .base_i(base_q),
        .next_i(next_q),
        .window_packets_i(packets_q),
        .received_i(received_q),
        .bitmap_o(bitmap)
    );

    // Answer.
    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            rsp_valid_o <= 1'b0;
        end else if (advance) begin
            rsp_valid_o <= updated_q;
        end
        if (advance) begin
            rsp_status_o <= status_q;
            rsp_verdict_o <= verdict_q;
            rsp_advanced_o <= advanced_q;
            rsp_hole_o <= has_window_q && next_q != highest_q;
            rsp_next_psn_o <= has_window_q ? next_q : '0;
            rsp_highest_psn_o <= has_window_q ? highest_q : '0;
            rsp_bitmap_o <= is_read_q ? bitmap : '0;
        end
    end
endmodule
