// From reset on, whatever commands come and however answers are held up: each command has one answer, which stays until it is taken.
// (That each sees the window that the one before it left is the memory's proof; what becomes of a window, the update's.)
module plait_rx_window_proof #(
    localparam int unsigned PSN_BITS = 6,
    localparam int unsigned QPN_BITS = 2,
    localparam int unsigned BITMAP_BITS = 2
) (
    input logic                clk_i,
    input logic                cmd_valid_i,
    input logic [7:0]          cmd_opcode_i,
    input logic [QPN_BITS-1:0] cmd_qp_i,
    input logic [PSN_BITS-1:0] cmd_psn_i,
    input logic [15:0]         cmd_window_packets_i,
    input logic                rsp_ready_i
);
    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic                   cmd_ready, rsp_valid, advanced, hole;
    logic [7:0]             status, verdict;
    logic [PSN_BITS-1:0]    next, highest;
    logic [BITMAP_BITS-1:0] bitmap;

    plait_rx_window #(
        .QUEUE_PAIRS(3), .QPN_BITS(QPN_BITS), .PSN_BITS(PSN_BITS), .RING_PACKETS(8), .LEAST_PACKETS(2), .BITMAP_BITS(BITMAP_BITS)
    ) u_window (
        .clk_i, .rst_ni(rst_n), .cmd_valid_i, .cmd_ready_o(cmd_ready), .cmd_opcode_i, .cmd_qp_i, .cmd_psn_i,
        .cmd_window_packets_i, .rsp_valid_o(rsp_valid), .rsp_ready_i, .rsp_status_o(status), .rsp_verdict_o(verdict),
        .rsp_advanced_o(advanced), .rsp_hole_o(hole), .rsp_next_psn_o(next), .rsp_highest_psn_o(highest),
        .rsp_bitmap_o(bitmap));

    // Commands without an answer yet, the oldest first: which are none, whatever the state.
    logic [3:0] is_none;
    logic [2:0] count = '0;
    logic       given, taken;
    assign given = cmd_valid_i && cmd_ready && rst_n;
    assign taken = rsp_valid && rsp_ready_i && rst_n;

    logic [8+8+2+2*PSN_BITS+BITMAP_BITS-1:0] answer, held;
    logic was_held = 1'b0;
    assign answer = {status, verdict, advanced, hole, next, highest, bitmap};

    always_ff @(posedge clk_i) begin
        if (taken) is_none[2:0] <= is_none[3:1];
        if (given) is_none[2'(count - 3'(taken))] <= cmd_opcode_i > plait_regmap_pkg::WINDOW_OPCODE_CLOSE;
        count <= count + 3'(given) - 3'(taken);
        was_held <= rst_n && rsp_valid && !rsp_ready_i;
        held <= answer;
    end

    always_comb if (rst_n) begin
        assert (count <= 3);
        if (rsp_valid) assert (count != '0);
        if (count == 3) assert (rsp_valid);
        if (was_held) assert (rsp_valid && answer == held);
        if (taken) assert ((status == plait_regmap_pkg::STATUS_INVALID_OPCODE) == is_none[0]);
    end
endmodule
