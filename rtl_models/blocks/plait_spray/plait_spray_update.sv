// What one command makes of a queue pair's spray selector, and the path that it names. No state.
module plait_spray_update #(
    parameter int unsigned PLANES = 8,
    parameter int unsigned ENTROPIES = 256,
    parameter int unsigned BYTES_BITS = 16,
    parameter int unsigned STATE_BITS = 3405,  // of a selector, given by the other three
    localparam int unsigned PLANE_BITS = $clog2(PLANES),
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES),
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1),
    localparam int unsigned KEY_BITS = 28
) (
    input  logic [7:0]                   opcode_i,        // spray_opcode_e
    input  logic [PLANES-1:0]            up_i,            // choose, due
    input  logic [PLANES-1:0]            credited_i,      // choose: planes that have credit
    input  logic [BYTES_BITS-1:0]        bytes_i,         // choose
    input  logic [7:0]                   plane_i,
    input  logic [INDEX_BITS-1:0]        index_i,
    input  logic                         flag_i,          // gone: arrived; acknowledged: marked
    input  logic [STATE_BITS-1:0]        found_i,
    input  logic [STATE_BITS-1:0]        configured_i,    // what configure makes
    output logic [STATE_BITS-1:0]        changed_o,
    output logic [7:0]                   status_o,        // status_e; other than ok: nothing is to change
    output logic                         granted_o,       // there is a path:
    output logic [INDEX_BITS-1:0]        index_o,
    output logic [INDEX_BITS-1:0]        position_o,
    output logic [PLANE_BITS-1:0]        plane_o,
    output logic [KEY_BITS-1:0]          key_o,           // of its plane
    output logic [PLANES-1:0]            due_o,           // choose, due: all ones when any plane is
    output logic [PLANES-1:0]            usable_o,        // planes that are not excluded, after the command
    output logic [PLANES-1:0]            suspect_o,       // planes that lost too many, after the command
    output logic [INDEX_BITS:0]          failed_o         // values that are assumed bad, after the command
);
    localparam int unsigned POSITIONS = INDEX_BITS + 1;  // bits of a count of values
    localparam int unsigned LOSS_BITS = 8;
    localparam int unsigned FLIGHT_BITS = 16;

    // The states of firmware/engines' EntropyState, their two bits apart.
    typedef struct packed {
        logic [7:0]                      policy;          // spray_policy_e
        logic [COUNT_BITS-1:0]           planes;
        logic [POSITIONS-1:0]            entropies;
        logic [POSITIONS-1:0]            per_plane;
        logic [LOSS_BITS-1:0]            suspect_losses;
        logic [PLANES-1:0]               excluded;
        logic [PLANE_BITS-1:0]           last_plane;      // spray: used last
        logic [INDEX_BITS-1:0]           rotation;        // round_robin: the next value
        logic [INDEX_BITS-1:0]           single;          // single_path: the value
        logic [PLANE_BITS-1:0]           probe_plane;     // where the walk over values to probe stands
        logic [POSITIONS-1:0]            probe_ordinal;
        logic [FLIGHT_BITS-1:0]          total;           // packets in flight, and those on each plane:
        logic [PLANES*FLIGHT_BITS-1:0]   in_flight;
        logic [PLANES*BYTES_BITS-1:0]    ahead;           // bytes that a plane has got more than the one with the fewest
        logic [PLANES*LOSS_BITS-1:0]     losses;          // since the last acknowledgement
        logic [PLANES*POSITIONS-1:0]     failed;          // values assumed bad
        logic [PLANES*POSITIONS-1:0]     denied;
        logic [PLANES*INDEX_BITS-1:0]    cursors;         // position of the next value
        logic [PLANES*KEY_BITS-1:0]      keys;            // of the entropy values
        logic [ENTROPIES-1:0]            is_skip;         // sits out one rotation; with is_bad: denied
        logic [ENTROPIES-1:0]            is_bad;
        logic [ENTROPIES*INDEX_BITS-1:0] lists;           // of values assumed bad
    } state_t;

    state_t was, now;
    if ($bits(was) != STATE_BITS) $fatal(1, "plait_spray_update: STATE_BITS is %0d, expected %0d", STATE_BITS, $bits(was));

    assign was = found_i;
    assign changed_o = now;

    logic is_choose, is_due, is_probe, is_spray, is_rotation, is_single;
    assign is_choose = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_CHOOSE;
    assign is_due = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_DUE;
    assign is_probe = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_PROBE;
    assign is_spray = was.policy == plait_regmap_pkg::SPRAY_POLICY_SPRAY;
    assign is_rotation = was.policy == plait_regmap_pkg::SPRAY_POLICY_ROUND_ROBIN;
    assign is_single = was.policy == plait_regmap_pkg::SPRAY_POLICY_SINGLE_PATH;

    // Planes.
    logic [PLANES-1:0] all_planes, usable, available, has_failed, offered;
    for (genvar p = 0; p < PLANES; p = p + 1) begin : g_plane
        logic [POSITIONS-1:0] failed, denied;
        assign failed = was.failed[POSITIONS*p +: POSITIONS];
        assign denied = was.denied[POSITIONS*p +: POSITIONS];
        assign all_planes[p] = was.planes > COUNT_BITS'(p);
        assign has_failed[p] = failed != '0;
        assign available[p] = {1'b0, failed} + {1'b0, denied} < {1'b0, was.per_plane};
    end
    assign usable = all_planes & ~was.excluded;
    assign offered = up_i & credited_i;

    logic [PLANES-1:0]            due, least;
    logic [PLANES*BYTES_BITS-1:0] ahead_due;
    logic                         any_due;
    plait_spray_due #(.PLANES(PLANES), .BYTES_BITS(BYTES_BITS)) u_due (
        .is_spray_i(is_spray), .up_i(usable & up_i), .offered_i(usable & offered), .total_i(was.total), .in_flight_i(was.in_flight),
        .ahead_i(was.ahead), .any_o(any_due), .due_o(due), .ahead_o(ahead_due), .least_o(least));

    // Each value's plane, and what can be chosen.
    logic [PLANES*ENTROPIES-1:0] masks;
    logic [ENTROPIES-1:0]        of_usable, of_plane, is_good, good_here, skip_here;
    plait_spray_planes #(.PLANES(PLANES), .ENTROPIES(ENTROPIES)) u_planes (.planes_i(was.planes), .masks_o(masks));

    always_comb begin
        of_usable = '0;
        for (int unsigned p = 0; p < PLANES; p = p + 1) if (usable[p]) of_usable = of_usable | masks[ENTROPIES*p +: ENTROPIES];
    end
    assign is_good = ~was.is_skip & ~was.is_bad & ~({ENTROPIES{1'b1}} << was.entropies);

    // The plane of an index, and its position there: a multiplication that is exact for what an index can be.
    function automatic logic [INDEX_BITS-1:0] position_of(input logic [INDEX_BITS-1:0] index, input logic [COUNT_BITS-1:0] planes);
        logic [31:0] product;
        position_of = index;
        for (int unsigned divisor = 2; divisor <= PLANES; divisor = divisor + 1) begin
            product = 32'(index) * (65536 / divisor + 1);
            if (planes == COUNT_BITS'(divisor)) position_of = INDEX_BITS'(product >> 16);
        end
    endfunction

    function automatic logic [INDEX_BITS-1:0] index_of(input logic [PLANE_BITS-1:0] plane, input logic [INDEX_BITS-1:0] position,
                                                       input logic [COUNT_BITS-1:0] planes);
        index_of = position * INDEX_BITS'(planes) + INDEX_BITS'(plane);
    endfunction

    // The plane to take a value from: the first of the candidates from a place on, round the end.
    logic [PLANES-1:0]     candidates, with_values, first_plane, probe_able, probe_first;
    logic [PLANE_BITS-1:0] from_plane, chosen_plane, single_plane, next_probe_plane, plane;
    logic                  use_due, stays, takes_value, takes_failed, single_moves;
    logic [INDEX_BITS-1:0] single_position;

    assign single_position = position_of(was.single, was.planes);
    assign single_plane = PLANE_BITS'(was.single - single_position * INDEX_BITS'(was.planes));
    assign single_moves = was.excluded[single_plane] || was.is_skip[was.single] || was.is_bad[was.single];
    assign use_due = !any_due && (due & offered & usable & (available | has_failed)) != '0;

    always_comb begin
        candidates = offered & usable;
        if (is_single) candidates = usable;
        else if (is_rotation) candidates = offered & usable & has_failed;
        else candidates = use_due ? due & offered & usable : least;
    end
    assign with_values = (candidates & available) != '0 && !is_rotation ? candidates & available : candidates & has_failed;
    assign from_plane = is_single ? single_plane : PLANE_BITS'(was.last_plane + 1'b1);

    plait_first_from #(.BITS(PLANES)) u_first_plane (.bits_i(with_values), .from_i(from_plane), .first_o(first_plane));
    plait_onehot_index #(.BITS(PLANES)) u_chosen_plane (.onehot_i(first_plane), .index_o(chosen_plane));

    // The walk over values to probe stays on its plane while that has another one.
    assign probe_able = has_failed | (was.excluded & all_planes & available);
    assign stays = was.probe_ordinal < was.failed[POSITIONS*was.probe_plane +: POSITIONS]
                || (was.probe_ordinal == '0 && was.excluded[was.probe_plane] && available[was.probe_plane]);
    assign next_probe_plane = COUNT_BITS'(was.probe_plane) + 1'b1 == was.planes ? '0 : was.probe_plane + 1'b1;

    logic [PLANE_BITS-1:0] walked_plane, probe_plane;
    logic [POSITIONS-1:0]  probe_ordinal;
    plait_first_from #(.BITS(PLANES)) u_first_probe (.bits_i(probe_able), .from_i(next_probe_plane), .first_o(probe_first));
    plait_onehot_index #(.BITS(PLANES)) u_probe_plane (.onehot_i(probe_first), .index_o(walked_plane));
    assign probe_plane = stays ? was.probe_plane : walked_plane;
    assign probe_ordinal = stays ? was.probe_ordinal : '0;

    assign plane = is_probe ? probe_plane : chosen_plane;
    assign takes_failed = is_probe ? probe_ordinal < was.failed[POSITIONS*plane +: POSITIONS] : !available[plane] || is_rotation;
    assign takes_value = is_probe ? !takes_failed && (stays || probe_able != '0) : with_values != '0 && !takes_failed;

    // A value of that plane: the first good one from the cursor on, and those it passes that sit out are good again; when all sit
    // out, all are good again, and it is the first of them.
    logic [ENTROPIES-1:0]  searched, first_value, skip_after, good_again, passed;
    logic [INDEX_BITS-1:0] cursor, from_index, found_index, found_position;
    logic                  has_good;

    assign of_plane = masks[ENTROPIES*plane +: ENTROPIES];
    assign good_here = is_good & of_plane;
    assign skip_here = was.is_skip & ~was.is_bad & of_plane;
    assign has_good = good_here != '0;
    assign cursor = was.cursors[INDEX_BITS*plane +: INDEX_BITS];
    assign from_index = is_rotation && !is_probe ? was.rotation : index_of(plane, cursor, was.planes);
    assign searched = is_rotation && !is_probe ? is_good & of_usable : has_good ? good_here : skip_here;

    plait_first_from #(.BITS(ENTROPIES)) u_first_value (.bits_i(searched), .from_i(from_index), .first_o(first_value));
    plait_onehot_index #(.BITS(ENTROPIES)) u_found (.onehot_i(first_value), .index_o(found_index));
    assign found_position = position_of(found_index, was.planes);

    // Below the value found, from the cursor on, round the end.
    assign passed = found_index >= from_index ? ({ENTROPIES{1'b1}} << from_index) & (first_value - 1'b1)
                                              : ({ENTROPIES{1'b1}} << from_index) | (first_value - 1'b1);
    assign good_again = has_good ? skip_here & passed : skip_here;
    assign skip_after = was.is_skip & ~good_again;

    // A value that failed.
    logic [INDEX_BITS-1:0] failed_place, failed_position;
    assign failed_place = INDEX_BITS'(plane * was.per_plane[INDEX_BITS-1:0])
                        + (is_probe ? probe_ordinal[INDEX_BITS-1:0] : INDEX_BITS'(0));
    assign failed_position = was.lists[INDEX_BITS*failed_place +: INDEX_BITS];

    // The value of a single path after it has moved; the rotation's.
    logic [INDEX_BITS-1:0] taken_index, single;
    logic [PLANE_BITS-1:0] single_plane_after, rotation_plane;
    logic                  rotation_finds, single_denied;
    assign taken_index = takes_failed ? index_of(plane, failed_position, was.planes) : found_index;
    assign single = single_moves && with_values != '0 ? taken_index : was.single;
    assign single_plane_after = single_moves && with_values != '0 ? plane : single_plane;
    assign single_denied = single == was.single && was.is_skip[was.single] && was.is_bad[was.single];
    assign rotation_finds = searched != '0;
    assign rotation_plane = PLANE_BITS'(found_index - found_position * INDEX_BITS'(was.planes));

    // The index that a command names.
    logic [INDEX_BITS-1:0] position, list_place;
    logic [PLANE_BITS-1:0] named_plane;
    logic                  bad, denied, removes, adds;
    logic [POSITIONS-1:0]  failed_before;
    logic [LOSS_BITS-1:0]  losses_before;
    logic [ENTROPIES-1:0]  named;
    logic [ENTROPIES*INDEX_BITS-1:0] lists;

    assign position = position_of(index_i, was.planes);
    assign named_plane = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_GONE || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_EXCLUDE
                         || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_RESTORE
                       ? plane_i[PLANE_BITS-1:0] : PLANE_BITS'(index_i - position * INDEX_BITS'(was.planes));
    assign named = ENTROPIES'(1) << index_i;
    assign bad = was.is_bad[index_i] && !was.is_skip[index_i];
    assign denied = was.is_bad[index_i] && was.is_skip[index_i];
    assign failed_before = was.failed[POSITIONS*named_plane +: POSITIONS];
    assign losses_before = was.losses[LOSS_BITS*named_plane +: LOSS_BITS];
    assign list_place = INDEX_BITS'(named_plane * was.per_plane[INDEX_BITS-1:0]);
    assign adds = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_LOST && !denied;
    assign removes = bad && (adds || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_PROBE_RETURNED
                             || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_DENY);

    plait_spray_failures #(.ENTROPIES(ENTROPIES)) u_failures (
        .lists_i(was.lists), .first_i(list_place), .count_i(failed_before), .position_i(position), .remove_i(removes),
        .add_i(adds), .lists_o(lists));

    // What the command makes of it all.
    logic [FLIGHT_BITS-1:0] flight_before;
    logic [7:0]             planes;
    logic                   is_value, is_plane;
    assign planes = 8'(was.planes);
    assign is_value = POSITIONS'(index_i) < was.entropies;
    assign is_plane = plane_i < planes;
    assign flight_before = was.in_flight[FLIGHT_BITS*plane_i[PLANE_BITS-1:0] +: FLIGHT_BITS];

    always_comb begin
        status_o = plait_regmap_pkg::STATUS_OK;
        unique case (opcode_i)
            plait_regmap_pkg::SPRAY_OPCODE_CHOOSE: begin
                if (bytes_i == '0) status_o = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
                else if (&was.total) status_o = plait_regmap_pkg::STATUS_LIMIT_EXCEEDED;
            end
            plait_regmap_pkg::SPRAY_OPCODE_GONE:
                if (!is_plane) status_o = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
                else if (flight_before == '0) status_o = plait_regmap_pkg::STATUS_INVALID_STATE;
            plait_regmap_pkg::SPRAY_OPCODE_EXCLUDE, plait_regmap_pkg::SPRAY_OPCODE_RESTORE:
                if (!is_plane) status_o = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            plait_regmap_pkg::SPRAY_OPCODE_ACKNOWLEDGED, plait_regmap_pkg::SPRAY_OPCODE_LOST,
            plait_regmap_pkg::SPRAY_OPCODE_PROBE_RETURNED, plait_regmap_pkg::SPRAY_OPCODE_DENY,
            plait_regmap_pkg::SPRAY_OPCODE_PATH:
                if (!is_value) status_o = plait_regmap_pkg::STATUS_INVALID_PARAMETER;
            default: ;
        endcase
    end

    // The path, if there is one.
    always_comb begin
        granted_o = 1'b0;
        plane_o = plane;
        index_o = taken_index;
        position_o = takes_failed ? failed_position : found_position;
        if (is_probe) begin
            granted_o = takes_value || takes_failed;
        end else if (opcode_i == plait_regmap_pkg::SPRAY_OPCODE_PATH) begin
            granted_o = is_value;
            index_o = index_i;
            position_o = position;
            plane_o = named_plane;
        end else if (is_choose && status_o == plait_regmap_pkg::STATUS_OK && (due & offered) != '0) begin
            granted_o = with_values != '0;
            if (is_single) begin
                granted_o = !was.excluded[single_plane_after] && !single_denied && offered[single_plane_after];
                plane_o = single_plane_after;
                index_o = single;
                position_o = position_of(single, was.planes);
            end else if (is_rotation && rotation_finds) begin
                granted_o = offered[rotation_plane];
                plane_o = rotation_plane;
                index_o = found_index;
                position_o = found_position;
            end
        end
    end
    assign key_o = was.keys[KEY_BITS*plane_o +: KEY_BITS];
    assign due_o = due;

    // The queue pair afterwards.
    logic                 chooses, takes;
    logic [PLANES-1:0]    of_named, of_path, of_taken;
    logic [ENTROPIES-1:0] kept_denied;
    assign chooses = is_choose && status_o == plait_regmap_pkg::STATUS_OK && (due & offered) != '0;
    assign takes = takes_value && (is_probe || (chooses && (is_spray || (is_single && single_moves))));
    assign of_named = PLANES'(1) << named_plane;
    assign of_path = PLANES'(chooses && granted_o) << plane_o;
    assign of_taken = PLANES'(takes) << plane;
    assign kept_denied = (was.is_bad & was.is_skip) | ~masks[ENTROPIES*named_plane +: ENTROPIES];

    logic [PLANES*FLIGHT_BITS-1:0] in_flight;
    logic [PLANES*BYTES_BITS-1:0]  ahead, ahead_before;
    logic [PLANES*LOSS_BITS-1:0]   losses;
    logic [PLANES*POSITIONS-1:0]   failed, denied_after;
    logic [PLANES*INDEX_BITS-1:0]  cursors;
    logic                          heard, restores, is_gone, loses, denies;
    assign restores = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_RESTORE;
    assign heard = restores || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_ACKNOWLEDGED
                || opcode_i == plait_regmap_pkg::SPRAY_OPCODE_PROBE_RETURNED || (is_gone && flag_i);
    assign is_gone = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_GONE;
    assign loses = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_LOST;
    assign denies = opcode_i == plait_regmap_pkg::SPRAY_OPCODE_DENY;

    always_comb begin
        now = was;
        now.lists = lists;
        if (takes) now.is_skip = skip_after;
        unique case (opcode_i)
            plait_regmap_pkg::SPRAY_OPCODE_CHOOSE: if (chooses) begin
                now.single = single;
                if (is_rotation && rotation_finds)
                    now.rotation = !granted_o ? found_index : POSITIONS'(found_index) + 1'b1 == was.entropies ? '0 : found_index + 1'b1;
                if (granted_o && (is_spray || (is_rotation && !rotation_finds))) now.last_plane = plane;
                now.total = was.total + FLIGHT_BITS'(granted_o);
            end
            plait_regmap_pkg::SPRAY_OPCODE_GONE: now.total = was.total - 1'b1;
            plait_regmap_pkg::SPRAY_OPCODE_FORGET: now.total = '0;
            plait_regmap_pkg::SPRAY_OPCODE_ACKNOWLEDGED:
                if (flag_i && is_spray && is_good[index_i]) now.is_skip = was.is_skip | named;
            plait_regmap_pkg::SPRAY_OPCODE_LOST: if (adds) begin
                now.is_bad = was.is_bad | named;
                now.is_skip = was.is_skip & ~named;
            end
            plait_regmap_pkg::SPRAY_OPCODE_PROBE_RETURNED: if (removes) now.is_bad = was.is_bad & ~named;
            plait_regmap_pkg::SPRAY_OPCODE_DENY: begin
                now.is_bad = was.is_bad | named;
                now.is_skip = was.is_skip | named;
            end
            plait_regmap_pkg::SPRAY_OPCODE_EXCLUDE: now.excluded = was.excluded | of_named;
            plait_regmap_pkg::SPRAY_OPCODE_RESTORE: begin
                now.excluded = was.excluded & ~of_named;
                now.is_bad = was.is_bad & kept_denied;
                now.is_skip = was.is_skip & kept_denied;
            end
            plait_regmap_pkg::SPRAY_OPCODE_PROBE: begin
                now.probe_plane = granted_o ? plane : next_probe_plane;
                now.probe_ordinal = granted_o ? probe_ordinal + 1'b1 : '0;
            end
            default: ;
        endcase
        now.in_flight = in_flight;
        now.ahead = ahead;
        now.losses = losses;
        now.failed = failed;
        now.denied = denied_after;
        now.cursors = cursors;
        if (opcode_i == plait_regmap_pkg::SPRAY_OPCODE_CONFIGURE) now = configured_i;
    end

    for (genvar p = 0; p < PLANES; p = p + 1) begin : g_after
        logic [BYTES_BITS-1:0] had;
        assign had = ahead_before[BYTES_BITS*p +: BYTES_BITS];
        assign ahead[BYTES_BITS*p +: BYTES_BITS] = of_path[p] && is_spray ? had + bytes_i : had;
        assign in_flight[FLIGHT_BITS*p +: FLIGHT_BITS] =
            opcode_i == plait_regmap_pkg::SPRAY_OPCODE_FORGET ? '0
            : was.in_flight[FLIGHT_BITS*p +: FLIGHT_BITS] + FLIGHT_BITS'(of_path[p]) - FLIGHT_BITS'(is_gone && of_named[p]);
        assign losses[LOSS_BITS*p +: LOSS_BITS] = !of_named[p] ? was.losses[LOSS_BITS*p +: LOSS_BITS]
            : heard ? '0 : loses && !(&losses_before) ? losses_before + 1'b1 : losses_before;
        assign failed[POSITIONS*p +: POSITIONS] = !of_named[p] ? was.failed[POSITIONS*p +: POSITIONS]
            : restores ? '0 : failed_before + POSITIONS'(adds) - POSITIONS'(removes);
        assign denied_after[POSITIONS*p +: POSITIONS] =
            was.denied[POSITIONS*p +: POSITIONS] + POSITIONS'(of_named[p] && denies && !denied);
        assign cursors[INDEX_BITS*p +: INDEX_BITS] = !of_taken[p] ? was.cursors[INDEX_BITS*p +: INDEX_BITS]
            : POSITIONS'(found_position) + 1'b1 == was.per_plane ? '0 : found_position + 1'b1;
        assign usable_o[p] = now.planes > COUNT_BITS'(p) && !now.excluded[p];
        assign suspect_o[p] = usable_o[p] && now.losses[LOSS_BITS*p +: LOSS_BITS] >= now.suspect_losses;
    end

    // With more packets in flight, planes are not kept even: what they got is forgotten.
    always_comb begin
        ahead_before = was.ahead;
        if (is_spray && chooses && !use_due) ahead_before = '0;
        else if (!any_due && (is_due || (is_choose && status_o == plait_regmap_pkg::STATUS_OK))) ahead_before = ahead_due;
    end

    always_comb begin
        failed_o = '0;
        for (int unsigned p = 0; p < PLANES; p = p + 1) failed_o = failed_o + now.failed[POSITIONS*p +: POSITIONS];
    end
endmodule
