// One packet against the window of its queue pair: the verdict, and the window after it. No state of its own.
//
// A ring of bits, indexed by the low bits of the PSN, says which packets above the next expected one have come. A bit is cleared
// when the window moves over it, so the bit of the next expected packet is never set.
module plait_rx_window_update #(
    parameter int unsigned PSN_BITS = 24,
    parameter int unsigned RING_PACKETS = plait_regmap_pkg::MAX_WINDOW_PACKETS,
    localparam int unsigned RING_BITS = $clog2(RING_PACKETS)
) (
    input  logic                    refuse_i,          // takes psn_i back, which was accepted last; else receives it
    input  logic [PSN_BITS-1:0]     psn_i,
    input  logic [RING_BITS:0]      window_packets_i,
    input  logic [PSN_BITS-1:0]     next_i,            // next expected
    input  logic [PSN_BITS-1:0]     highest_i,         // one after the highest received
    input  logic [RING_PACKETS-1:0] received_i,
    input  logic [PSN_BITS-1:0]     highest_before_i,  // what highest_i was before psn_i was accepted; for refuse_i

    output logic [7:0]              verdict_o,         // window_verdict_e, of a received packet
    output logic                    advanced_o,
    output logic [PSN_BITS-1:0]     next_o,
    output logic [PSN_BITS-1:0]     highest_o,
    output logic [RING_PACKETS-1:0] received_o
);
    typedef logic [RING_PACKETS-1:0] ring_t;

    localparam logic [RING_PACKETS-1:0] ALL = {RING_PACKETS{1'b1}};
    localparam logic [RING_PACKETS-1:0] ONE = {{(RING_PACKETS - 1){1'b0}}, 1'b1};

    // Where the packet lies.
    logic [PSN_BITS-1:0] ahead, above;
    logic behind, beyond, accepted, fills_gap;
    ring_t packet;

    assign ahead = psn_i - next_i;
    assign above = psn_i + 1'b1;
    assign behind = ahead[PSN_BITS-1];
    assign beyond = !behind && ahead >= PSN_BITS'(window_packets_i);
    assign packet = ONE << psn_i[RING_BITS-1:0];
    assign accepted = !behind && !beyond && (received_i & packet) == '0;
    assign fills_gap = accepted && ahead == '0;

    assign verdict_o = beyond ? plait_regmap_pkg::WINDOW_VERDICT_OUT_OF_WINDOW
                     : accepted ? plait_regmap_pkg::WINDOW_VERDICT_ACCEPT : plait_regmap_pkg::WINDOW_VERDICT_DUPLICATE;
    assign advanced_o = fills_gap;

    // The packets that wait behind a filled gap are a run of ones, around the end of the ring if need be. The carry of an
    // addition at its start goes through it, clears it and stops in the first zero, the next gap.
    ring_t after_gap, from_start, around, run_cleared, gap;
    logic  is_around;
    logic [RING_BITS-1:0] gap_place, run_packets;

    assign after_gap = ONE << above[RING_BITS-1:0];
    assign {is_around, from_start} = {1'b0, received_i} + {1'b0, after_gap};
    assign around = is_around ? received_i + ONE : '0;
    assign gap = (from_start | around) & ~received_i;
    assign run_cleared = received_i & from_start & (is_around ? around : ALL);
    assign run_packets = gap_place - above[RING_BITS-1:0];

    plait_onehot_index #(.BITS(RING_PACKETS)) u_gap_place (.onehot_i(gap), .index_o(gap_place));

    // Taking back a packet that filled a gap: those between it and the next expected one wait again.
    ring_t from_above, from_next, wait_again;

    assign from_above = ALL << above[RING_BITS-1:0];
    assign from_next = ALL << next_i[RING_BITS-1:0];
    assign wait_again = above[RING_BITS-1:0] <= next_i[RING_BITS-1:0] ? from_above & ~from_next : from_above | ~from_next;

    always_comb begin
        next_o = next_i;
        highest_o = highest_i;
        received_o = received_i;
        if (refuse_i) begin
            highest_o = highest_before_i;
            if (behind) begin
                next_o = psn_i;
                received_o = received_i | wait_again;
            end else begin
                received_o = received_i & ~packet;
            end
        end else if (accepted) begin
            // The packet is at or above the next expected one, as highest_i is: their distances from it compare.
            if (ahead >= PSN_BITS'(highest_i - next_i)) highest_o = above;
            if (fills_gap) begin
                next_o = above + PSN_BITS'(run_packets);
                received_o = run_cleared;
            end else begin
                received_o = received_i | packet;
            end
        end
    end
endmodule
