// The multicast set of a row at its entry device: which devices of the node get a copy, and each copy's index. firmware/engines'
// ForwardSet. A row a cycle; the answer comes in the next cycle while rsp_ready_i is high.
module plait_forward #(
    parameter int unsigned NODE_RANKS = plait_regmap_pkg::MAX_RANKS_PER_NODE,  // of the largest node
    parameter int unsigned SLOT_BITS = 32,
    localparam int unsigned COUNT_BITS = $clog2(NODE_RANKS + 1)
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,  // synchronous

    input  logic                            cmd_valid_i,
    output logic                            cmd_ready_o,
    input  logic [NODE_RANKS-1:0]           cmd_targets_i,      // bit r: the node's rank r
    input  logic [7:0]                      cmd_node_size_i,
    input  logic [7:0]                      cmd_own_rank_i,
    input  logic [7:0]                      cmd_index_count_i,  // one for each target, in order of the bits
    input  logic [NODE_RANKS*SLOT_BITS-1:0] cmd_indices_i,      // the first one lowest

    output logic                            rsp_valid_o,
    input  logic                            rsp_ready_i,
    output logic [7:0]                      rsp_status_o,       // status_e; other than ok: there is no copy
    output logic [NODE_RANKS-1:0]           rsp_targets_o,
    output logic [NODE_RANKS*SLOT_BITS-1:0] rsp_indices_o,      // by rank; zero where there is no copy
    output logic [COUNT_BITS-1:0]           rsp_copies_o,
    output logic                            rsp_includes_own_o, // the entry device's own copy takes no scale-up link
    output logic [NODE_RANKS-1:0]           rsp_remote_o        // targets that are reached over scale-up
);
    if (NODE_RANKS < 1 || NODE_RANKS > 64) $fatal(1, "plait_forward: NODE_RANKS is %0d, expected 1 .. 64", NODE_RANKS);

    logic advance;
    assign advance = !rsp_valid_o || rsp_ready_i;
    assign cmd_ready_o = advance;

    logic [COUNT_BITS-1:0]           copies, ordinal;
    logic [NODE_RANKS-1:0]           own, beyond;
    logic [NODE_RANKS*SLOT_BITS-1:0] indices;
    logic                            is_ok;

    // A target takes the index whose number is that of the targets below it.
    always_comb begin
        copies = '0;
        indices = '0;
        for (int unsigned rank = 0; rank < NODE_RANKS; rank = rank + 1) begin
            ordinal = copies;
            if (cmd_targets_i[rank]) begin
                for (int unsigned i = 0; i <= rank; i = i + 1)
                    if (ordinal == COUNT_BITS'(i)) indices[SLOT_BITS*rank +: SLOT_BITS] = cmd_indices_i[SLOT_BITS*i +: SLOT_BITS];
                copies = copies + 1'b1;
            end
        end
    end

    assign own = NODE_RANKS'(1) << cmd_own_rank_i;
    assign beyond = {NODE_RANKS{1'b1}} << cmd_node_size_i;
    assign is_ok = cmd_node_size_i != 0 && cmd_node_size_i <= 8'(NODE_RANKS) && cmd_own_rank_i < cmd_node_size_i
                && cmd_targets_i != '0 && (cmd_targets_i & beyond) == '0 && cmd_index_count_i == 8'(copies);

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            rsp_valid_o <= 1'b0;
        end else if (advance) begin
            rsp_valid_o <= cmd_valid_i;
        end
        if (advance) begin
            rsp_status_o <= is_ok ? plait_regmap_pkg::STATUS_OK : plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            rsp_targets_o <= is_ok ? cmd_targets_i : '0;
            rsp_indices_o <= is_ok ? indices : '0;
            rsp_copies_o <= is_ok ? copies : '0;
            rsp_includes_own_o <= is_ok && (cmd_targets_i & own) != '0;
            rsp_remote_o <= is_ok ? cmd_targets_i & ~own : '0;
        end
    end
endmodule
