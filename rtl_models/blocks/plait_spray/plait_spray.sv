// The spray selectors of all queue pairs: what firmware/engines' SpraySelector is for one, with the credit of each plane. A command
// a cycle, whatever queue pairs it names; answers come in order, 3 cycles after their commands while rsp_ready_i is high. A
// configure takes 34 cycles for each plane and 35 more.
//
//   fetch    the queue pair's selector is read from memory
//   update   the path is chosen, and what changes is written back; the next command for it sees this
//   path     the path's entropy value is computed
//   answer   registers
module plait_spray #(
    parameter int unsigned QUEUE_PAIRS = plait_regmap_pkg::MAX_QUEUES,
    parameter int unsigned PLANES = plait_regmap_pkg::MAX_PLANES,
    parameter int unsigned ENTROPIES = plait_regmap_pkg::MAX_ENTROPY_VALUES,  // of a queue pair, at most
    parameter int unsigned QPN_BITS = 24,
    parameter int unsigned BYTES_BITS = 16,
    parameter int unsigned CREDIT_BITS = 22,                         // signed bytes
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES)
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,                // synchronous; no queue pair is configured, no plane has credit

    input  logic                  cmd_valid_i,
    output logic                  cmd_ready_o,
    input  logic [7:0]            cmd_opcode_i,          // spray_opcode_e
    input  logic [QPN_BITS-1:0]   cmd_qp_i,              // but for credit
    input  logic [PLANES-1:0]     cmd_up_i,              // choose, due
    input  logic [BYTES_BITS-1:0] cmd_bytes_i,           // choose, credit
    input  logic [7:0]            cmd_plane_i,           // gone, exclude, restore, credit
    input  logic [INDEX_BITS-1:0] cmd_index_i,           // acknowledged, lost, probe_returned, deny, path
    input  logic                  cmd_flag_i,            // gone: it arrived; acknowledged: it was marked
    input  logic [7:0]            cmd_policy_i,          // configure: spray_policy_e
    input  logic [7:0]            cmd_planes_i,          // and so on
    input  logic [15:0]           cmd_entropies_i,
    input  logic [31:0]           cmd_seed_i,
    input  logic [7:0]            cmd_suspect_losses_i,

    output logic                  rsp_valid_o,
    input  logic                  rsp_ready_i,
    output logic [7:0]            rsp_status_o,          // status_e; other than ok: nothing changed, and the rest is zero
    output logic                  rsp_granted_o,         // there is a path:
    output logic [INDEX_BITS-1:0] rsp_index_o,
    output logic [15:0]           rsp_entropy_o,
    output logic [7:0]            rsp_plane_o,
    output logic [PLANES-1:0]     rsp_due_o,             // choose, due: all ones when any plane is
    output logic [PLANES-1:0]     rsp_usable_o,          // planes that are not excluded
    output logic [PLANES-1:0]     rsp_suspect_o,         // planes that lost too many packets
    output logic [INDEX_BITS:0]   rsp_failed_o           // values that are assumed bad
);
    if (QUEUE_PAIRS < 2) $fatal(1, "plait_spray: QUEUE_PAIRS is %0d, expected at least 2", QUEUE_PAIRS);
    if (QUEUE_PAIRS > 1 << QPN_BITS) $fatal(1, "plait_spray: QPN_BITS is %0d, too few to name all queue pairs", QPN_BITS);
    if (PLANES < 2 || PLANES > 8) $fatal(1, "plait_spray: PLANES is %0d, expected 2 .. 8", PLANES);
    if (ENTROPIES != 1 << INDEX_BITS || ENTROPIES < PLANES || ENTROPIES > 256)
        $fatal(1, "plait_spray: ENTROPIES is %0d, expected a power of two, PLANES .. 256", ENTROPIES);
    if (CREDIT_BITS <= BYTES_BITS) $fatal(1, "plait_spray: CREDIT_BITS is %0d, expected more than BYTES_BITS", CREDIT_BITS);

    localparam int unsigned PLANE_BITS = $clog2(PLANES);
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1);
    localparam int unsigned QUEUE_BITS = $clog2(QUEUE_PAIRS);
    localparam int unsigned KEY_BITS = 28;
    // As plait_spray_update lays it out: what a queue pair is configured with, its places, counts, and values.
    localparam int unsigned STATE_BITS = 8 + COUNT_BITS + 2 * (INDEX_BITS + 1) + 8 + PLANES + 2 * PLANE_BITS + 3 * INDEX_BITS + 1 + 16
        + PLANES * (16 + BYTES_BITS + 8 + 2 * (INDEX_BITS + 1) + INDEX_BITS + KEY_BITS) + ENTROPIES * (2 + INDEX_BITS);

    logic advance, done;
    assign advance = (!rsp_valid_o || rsp_ready_i) && done;
    assign cmd_ready_o = advance;

    // Update.
    logic                  fetched_q, flag_q;
    logic [7:0]            opcode_q, plane_q, policy_q, planes_q, suspect_losses_q;
    logic [QPN_BITS-1:0]   qp_q;
    logic [PLANES-1:0]     up_q;
    logic [BYTES_BITS-1:0] bytes_q;
    logic [INDEX_BITS-1:0] index_q;
    logic [15:0]           entropies_q;
    logic [31:0]           seed_q;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            fetched_q <= 1'b0;
        end else if (advance) begin
            fetched_q <= cmd_valid_i;
        end
        if (advance) begin
            opcode_q <= cmd_opcode_i;
            qp_q <= cmd_qp_i;
            up_q <= cmd_up_i;
            bytes_q <= cmd_bytes_i;
            plane_q <= cmd_plane_i;
            index_q <= cmd_index_i;
            flag_q <= cmd_flag_i;
            policy_q <= cmd_policy_i;
            planes_q <= cmd_planes_i;
            entropies_q <= cmd_entropies_i;
            seed_q <= cmd_seed_i;
            suspect_losses_q <= cmd_suspect_losses_i;
        end
    end

    logic [QUEUE_PAIRS-1:0] configured_q;
    logic [QUEUE_BITS-1:0]  queue;
    logic                   is_known, is_configured, is_configure, is_credit, is_allowed;
    assign queue = qp_q[QUEUE_BITS-1:0];
    assign is_known = QUEUE_PAIRS == 1 << QPN_BITS || qp_q < QPN_BITS'(QUEUE_PAIRS);
    assign is_configured = is_known && configured_q[queue];
    assign is_configure = opcode_q == plait_regmap_pkg::SPRAY_OPCODE_CONFIGURE;
    assign is_credit = opcode_q == plait_regmap_pkg::SPRAY_OPCODE_CREDIT;

    // What configure begins with. Planes divide the values: the quotient is taken as in plait_spray_update, and checked.
    logic [INDEX_BITS:0]           per_plane;
    logic [31:0]                   product;
    logic                          starts, setup_done;
    logic [PLANE_BITS-1:0]         first_plane;
    logic [INDEX_BITS-1:0]         first_index;
    logic [PLANES*INDEX_BITS-1:0]  cursors;
    logic [PLANES*KEY_BITS-1:0]    keys;

    always_comb begin
        per_plane = entropies_q[INDEX_BITS:0];
        product = '0;
        for (int unsigned divisor = 2; divisor <= PLANES; divisor = divisor + 1) begin
            product = 32'(entropies_q[INDEX_BITS:0]) * (65536 / divisor + 1);
            if (planes_q == 8'(divisor)) per_plane = (INDEX_BITS+1)'(product >> 16);
        end
    end
    assign is_allowed = planes_q != '0 && planes_q <= 8'(PLANES) && entropies_q != '0 && entropies_q <= 16'(ENTROPIES)
                     && 16'(per_plane) * 16'(planes_q) == entropies_q && suspect_losses_q != '0
                     && policy_q <= plait_regmap_pkg::SPRAY_POLICY_SINGLE_PATH;
    assign starts = fetched_q && is_configure && is_known && is_allowed;
    assign done = !starts || setup_done;

    plait_spray_setup #(.PLANES(PLANES), .ENTROPIES(ENTROPIES)) u_setup (
        .clk_i, .rst_ni, .start_i(starts), .take_i(advance), .seed_i(seed_q), .planes_i(planes_q[COUNT_BITS-1:0]),
        .entropies_i(entropies_q[INDEX_BITS:0]), .per_plane_i(per_plane), .done_o(setup_done), .plane_o(first_plane),
        .index_o(first_index), .cursors_o(cursors), .keys_o(keys));

    // Credit of the planes, of two's complement: the last packet may take more than there is.
    logic [PLANES*CREDIT_BITS-1:0] credit_q;
    logic [PLANES-1:0]             credited, more, grants, overflows;
    logic                          is_plane;
    assign is_plane = plane_q < 8'(PLANES);
    assign more = PLANES'(advance && fetched_q && is_credit && is_plane) << plane_q;
    for (genvar p = 0; p < PLANES; p = p + 1) begin : g_credit
        logic [CREDIT_BITS-1:0] credit, sum;
        assign credit = credit_q[CREDIT_BITS*p +: CREDIT_BITS];
        assign credited[p] = !credit[CREDIT_BITS-1] && credit != '0;
        assign sum = credit + CREDIT_BITS'(bytes_q);
        assign overflows[p] = !credit[CREDIT_BITS-1] && sum[CREDIT_BITS-1];
        always_ff @(posedge clk_i) begin
            if (!rst_ni) credit_q[CREDIT_BITS*p +: CREDIT_BITS] <= '0;
            else if (more[p] && !overflows[p]) credit_q[CREDIT_BITS*p +: CREDIT_BITS] <= sum;
            else if (grants[p]) credit_q[CREDIT_BITS*p +: CREDIT_BITS] <= credit - CREDIT_BITS'(bytes_q);
        end
    end

    // The queue pair, and the path.
    logic [STATE_BITS-1:0] found, changed, configured;
    logic [7:0]            status, update_status;
    logic                  granted, write, has_answer;
    logic [INDEX_BITS-1:0] index, position;
    logic [INDEX_BITS:0]   failed;
    logic [PLANE_BITS-1:0] plane;
    logic [KEY_BITS-1:0]   key;
    logic [PLANES-1:0]     due, usable, suspect;

    // In the order of plait_spray_update.
    assign configured = {policy_q, planes_q[COUNT_BITS-1:0], entropies_q[INDEX_BITS:0], per_plane, suspect_losses_q,
        {PLANES{1'b0}}, first_plane, first_index, first_index, {PLANE_BITS + INDEX_BITS + 1 + 16 + PLANES * (16 + BYTES_BITS + 8 + 2 * (INDEX_BITS + 1)){1'b0}},
        cursors, keys, {ENTROPIES * (2 + INDEX_BITS){1'b0}}};

    plait_spray_update #(.PLANES(PLANES), .ENTROPIES(ENTROPIES), .BYTES_BITS(BYTES_BITS), .STATE_BITS(STATE_BITS)) u_update (
        .opcode_i(opcode_q), .up_i(up_q), .credited_i(credited), .bytes_i(bytes_q), .plane_i(plane_q), .index_i(index_q),
        .flag_i(flag_q), .found_i(found), .configured_i(configured), .changed_o(changed), .status_o(update_status),
        .granted_o(granted), .index_o(index), .position_o(position), .plane_o(plane), .key_o(key), .due_o(due),
        .usable_o(usable), .suspect_o(suspect), .failed_o(failed));

    always_comb begin
        if (opcode_q > plait_regmap_pkg::SPRAY_OPCODE_CREDIT) status = plait_regmap_pkg::STATUS_INVALID_OPCODE;
        else if (is_credit) status = !is_plane ? plait_regmap_pkg::STATUS_INVALID_PARAMETER
                                   : overflows[plane_q[PLANE_BITS-1:0]] ? plait_regmap_pkg::STATUS_OUT_OF_RANGE : plait_regmap_pkg::STATUS_OK;
        else if (!is_known) status = plait_regmap_pkg::STATUS_INVALID_QP;
        else if (is_configure) status = is_allowed ? plait_regmap_pkg::STATUS_OK : plait_regmap_pkg::STATUS_INVALID_PARAMETER;
        else if (!is_configured) status = plait_regmap_pkg::STATUS_INVALID_QP;
        else status = update_status;
    end
    assign has_answer = status == plait_regmap_pkg::STATUS_OK && !is_credit;
    assign write = advance && fetched_q && has_answer;
    assign grants = PLANES'(write && granted && opcode_q == plait_regmap_pkg::SPRAY_OPCODE_CHOOSE) << plane;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) configured_q <= '0;
        else if (write && is_configure) configured_q[queue] <= 1'b1;
    end

    plait_ram #(.WORDS(QUEUE_PAIRS), .BITS(STATE_BITS)) u_selectors (
        .clk_i, .read_i(advance), .read_address_i(cmd_qp_i[QUEUE_BITS-1:0]), .data_o(found), .write_i(write),
        .write_address_i(queue), .data_i(changed));

    // Path: the entropy value is the position through three steps, each of which maps 14 bits onto 14 bits one to one.
    logic                  updated_q, granted_q;
    logic [7:0]            status_q;
    logic [INDEX_BITS-1:0] path_index_q, position_q;
    logic [PLANE_BITS-1:0] path_plane_q;
    logic [KEY_BITS-1:0]   key_q;
    logic [PLANES-1:0]     due_q, usable_q, suspect_q;
    logic [INDEX_BITS:0]   failed_q;
    logic                  has_due;
    assign has_due = opcode_q == plait_regmap_pkg::SPRAY_OPCODE_CHOOSE || opcode_q == plait_regmap_pkg::SPRAY_OPCODE_DUE;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            updated_q <= 1'b0;
        end else if (advance) begin
            updated_q <= fetched_q;
        end else if (!rsp_valid_o || rsp_ready_i) begin
            updated_q <= 1'b0;  // a configure is not done, what was before it goes on
        end
        if (advance) begin
            status_q <= status;
            granted_q <= has_answer && granted;
            path_index_q <= index;
            position_q <= position;
            path_plane_q <= plane;
            key_q <= key;
            due_q <= has_answer && has_due ? due : '0;
            usable_q <= has_answer ? usable : '0;
            suspect_q <= has_answer ? suspect : '0;
            failed_q <= has_answer ? failed : '0;
        end
    end

    logic [13:0] sum, mixed, folded, mixed_again, value;
    assign sum = 14'(position_q) + key_q[13:0];
    assign mixed = sum * 14'h2C6D + key_q[27:14];
    assign folded = mixed ^ (mixed >> 7);
    assign mixed_again = folded * 14'h1A35;
    assign value = mixed_again ^ (mixed_again >> 5);

    // Answer.
    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            rsp_valid_o <= 1'b0;
        end else if (!rsp_valid_o || rsp_ready_i) begin
            rsp_valid_o <= updated_q;
        end
        if (!rsp_valid_o || rsp_ready_i) begin
            rsp_status_o <= status_q;
            rsp_granted_o <= granted_q;
            rsp_index_o <= granted_q ? path_index_q : '0;
            rsp_entropy_o <= granted_q ? {2'b11, value} : '0;
            rsp_plane_o <= granted_q ? 8'(path_plane_q) : '0;
            rsp_due_o <= due_q;
            rsp_usable_o <= usable_q;
            rsp_suspect_o <= suspect_q;
            rsp_failed_o <= failed_q;
        end
    end
endmodule
