// From reset on, whatever commands come, however answers are held up, and whatever selectors begin with: a path is granted only on
// a plane that has credit, and takes its bytes; each command has one answer, in order, which stays until it is taken.
module plait_spray_proof #(
    localparam int unsigned PLANES = 2,
    localparam int unsigned ENTROPIES = 2,
    localparam int unsigned QPN_BITS = 2,
    localparam int unsigned BYTES_BITS = 2,
    localparam int unsigned INDEX_BITS = 1
) (
    input logic                  clk_i,
    input logic                  cmd_valid_i,
    input logic [7:0]            cmd_opcode_i,
    input logic [QPN_BITS-1:0]   cmd_qp_i,
    input logic [PLANES-1:0]     cmd_up_i,
    input logic [BYTES_BITS-1:0] cmd_bytes_i,
    input logic [7:0]            cmd_plane_i,
    input logic [INDEX_BITS-1:0] cmd_index_i,
    input logic                  cmd_flag_i,
    input logic [7:0]            cmd_policy_i,
    input logic [7:0]            cmd_planes_i,
    input logic [15:0]           cmd_entropies_i,
    input logic [7:0]            cmd_suspect_losses_i,
    input logic                  rsp_ready_i
);
    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic                  cmd_ready, rsp_valid, granted;
    logic [7:0]            status, plane;
    logic [INDEX_BITS-1:0] index;
    logic [15:0]           entropy;
    logic [PLANES-1:0]     due, usable, suspect;
    logic [INDEX_BITS:0]   failed;

    plait_spray #(
        .QUEUE_PAIRS(2), .PLANES(PLANES), .ENTROPIES(ENTROPIES), .QPN_BITS(QPN_BITS), .BYTES_BITS(BYTES_BITS), .CREDIT_BITS(4)
    ) u_spray (
        .clk_i, .rst_ni(rst_n), .cmd_valid_i, .cmd_ready_o(cmd_ready), .cmd_opcode_i, .cmd_qp_i, .cmd_up_i, .cmd_bytes_i,
        .cmd_plane_i, .cmd_index_i, .cmd_flag_i, .cmd_policy_i, .cmd_planes_i, .cmd_entropies_i, .cmd_seed_i('0),
        .cmd_suspect_losses_i, .rsp_valid_o(rsp_valid), .rsp_ready_i, .rsp_status_o(status), .rsp_granted_o(granted),
        .rsp_index_o(index), .rsp_entropy_o(entropy), .rsp_plane_o(plane), .rsp_due_o(due), .rsp_usable_o(usable),
        .rsp_suspect_o(suspect), .rsp_failed_o(failed));

    // Commands without an answer yet, the oldest first: which choose, among which planes, and which credit what, of how many bytes.
    localparam int unsigned KEPT = 2 + PLANES + 1 + BYTES_BITS;
    logic [KEPT-1:0] command, oldest;
    logic [KEPT-1:0] waiting [3];
    logic [1:0]      count = '0;
    logic            given, taken, is_choose, is_credit, credit_plane;
    logic [PLANES-1:0]     up;
    logic [BYTES_BITS-1:0] bytes;

    assign given = cmd_valid_i && cmd_ready && rst_n;
    assign taken = rsp_valid && rsp_ready_i && rst_n;
    assign command = {cmd_opcode_i == plait_regmap_pkg::SPRAY_OPCODE_CHOOSE, cmd_opcode_i == plait_regmap_pkg::SPRAY_OPCODE_CREDIT,
                      cmd_up_i, cmd_plane_i[0], cmd_bytes_i};
    assign oldest = waiting[0];
    assign {is_choose, is_credit, up, credit_plane, bytes} = oldest;

    // What planes have, by the answers so far.
    logic signed [7:0] credit [PLANES];
    logic       was_held = 1'b0;
    logic [8+1+INDEX_BITS+16+8+3*PLANES+INDEX_BITS:0] answer, held;
    assign answer = {status, granted, index, entropy, plane, due, usable, suspect, failed};

    always_ff @(posedge clk_i) begin
        if (taken) begin
            waiting[0] <= waiting[1];
            waiting[1] <= waiting[2];
        end
        if (given) waiting[2'(count - 2'(taken))] <= command;
        count <= count + 2'(given) - 2'(taken);
        was_held <= rst_n && rsp_valid && !rsp_ready_i;
        held <= answer;
        for (int unsigned p = 0; p < PLANES; p = p + 1) begin
            if (!rst_n) credit[p] <= '0;
            else if (taken && is_credit && status == plait_regmap_pkg::STATUS_OK && credit_plane == 1'(p)) credit[p] <= credit[p] + 8'(bytes);
            else if (taken && is_choose && granted && plane == 8'(p)) credit[p] <= credit[p] - 8'(bytes);
        end
    end

    always_comb if (rst_n) begin
        if (rsp_valid) assert (count != '0);
        if (count == 2'd3) assert (rsp_valid);
        if (was_held) assert (rsp_valid && answer == held);
        if (rsp_valid && is_choose && granted) begin
            assert (plane < 8'(PLANES));
            assert (credit[plane[0]] > 0);
            assert (up[plane[0]]);
        end
        if (rsp_valid && is_credit) assert (!granted);
    end
endmodule
