// Every index of an accepted row goes to one target, and every target gets one; the answer stays until it is taken.
module plait_forward_proof #(
    localparam int unsigned NODE_RANKS = 8,
    localparam int unsigned SLOT_BITS = 4
) (
    input logic                  clk_i,
    input logic                  cmd_valid_i,
    input logic [NODE_RANKS-1:0] cmd_targets_i,
    input logic [7:0]            cmd_node_size_i,
    input logic [7:0]            cmd_own_rank_i,
    input logic [7:0]            cmd_index_count_i,
    input logic                  rsp_ready_i
);
    (* anyconst *) logic [2:0] low_rank;
    (* anyconst *) logic [2:0] high_rank;

    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    // Each index carries its own number, 1 and up.
    logic [NODE_RANKS*SLOT_BITS-1:0] indices, slots;
    for (genvar i = 0; i < NODE_RANKS; i = i + 1) begin : g_index
        assign indices[SLOT_BITS*i +: SLOT_BITS] = SLOT_BITS'(i + 1);
    end

    logic                  cmd_ready, rsp_valid, includes_own;
    logic [7:0]            status;
    logic [NODE_RANKS-1:0] targets, remote;
    logic [3:0]            copies;

    plait_forward #(.NODE_RANKS(NODE_RANKS), .SLOT_BITS(SLOT_BITS)) u_forward (
        .clk_i, .rst_ni(rst_n), .cmd_valid_i, .cmd_ready_o(cmd_ready), .cmd_targets_i, .cmd_node_size_i, .cmd_own_rank_i,
        .cmd_index_count_i, .cmd_indices_i(indices), .rsp_valid_o(rsp_valid), .rsp_ready_i, .rsp_status_o(status),
        .rsp_targets_o(targets), .rsp_indices_o(slots), .rsp_copies_o(copies), .rsp_includes_own_o(includes_own),
        .rsp_remote_o(remote));

    logic [SLOT_BITS-1:0] low_slot, high_slot;
    logic                 low_has, high_has;
    assign low_slot = SLOT_BITS'(slots >> (SLOT_BITS * low_rank));
    assign high_slot = SLOT_BITS'(slots >> (SLOT_BITS * high_rank));
    assign low_has = targets[low_rank];
    assign high_has = targets[high_rank];

    // The row that the answer belongs to, and whether there is one.
    logic [NODE_RANKS-1:0] asked;
    logic                  is_due = 1'b0, was_held = 1'b0;
    logic [8+2*NODE_RANKS+NODE_RANKS*SLOT_BITS+4+1-1:0] answer, held;
    assign answer = {status, targets, remote, slots, copies, includes_own};
    always_ff @(posedge clk_i) begin
        if (cmd_ready && rst_n) begin
            asked <= cmd_targets_i;
            is_due <= cmd_valid_i;
        end
        was_held <= rst_n && rsp_valid && !rsp_ready_i;
        held <= answer;
    end

    always_comb if (rst_n) begin
        assert (rsp_valid == is_due);
        if (was_held) assert (rsp_valid && answer == held);
        if (rsp_valid) begin
            assert (low_has == (low_slot != '0));
            // As many indices as targets, each within them, ascending: so each goes to one.
            assert (low_slot <= copies);
            if (low_rank < high_rank && low_has && high_has) assert (low_slot < high_slot);
            if (status == plait_regmap_pkg::STATUS_OK) assert (targets == asked && copies != '0);
            else assert (targets == '0 && copies == '0 && !includes_own);
            assert ((remote & ~targets) == '0);
            assert (includes_own == (remote != targets));
        end
    end
endmodule
