// From any window that can be, one command leads to one that can be, and no packet is lost or counted twice: with that, the same
// holds after any number of commands.
module plait_rx_window_update_proof #(
    localparam int unsigned PSN_BITS = 6,
    localparam int unsigned RING_PACKETS = 8,
    localparam int unsigned RING_BITS = $clog2(RING_PACKETS)
) (
    // Anything, within the assumptions.
    input logic [PSN_BITS-1:0]     psn_i,
    input logic [PSN_BITS-1:0]     watched_i,
    input logic [RING_BITS:0]      window_packets_i,
    input logic [PSN_BITS-1:0]     next_i,
    input logic [PSN_BITS-1:0]     highest_i,
    input logic [RING_PACKETS-1:0] received_i
);
    logic [7:0]              verdict;
    logic                    advanced;
    logic [PSN_BITS-1:0]     next, highest, next_back, highest_back;
    logic [RING_PACKETS-1:0] received, received_back;

    plait_rx_window_update #(.PSN_BITS(PSN_BITS), .RING_PACKETS(RING_PACKETS)) u_receive (
        .refuse_i(1'b0), .psn_i, .window_packets_i, .next_i, .highest_i, .received_i, .highest_before_i('0),
        .verdict_o(verdict), .advanced_o(advanced), .next_o(next), .highest_o(highest), .received_o(received));

    plait_rx_window_update #(.PSN_BITS(PSN_BITS), .RING_PACKETS(RING_PACKETS)) u_refuse (
        .refuse_i(1'b1), .psn_i, .window_packets_i, .next_i(next), .highest_i(highest), .received_i(received),
        .highest_before_i(highest_i), .verdict_o(), .advanced_o(),
        .next_o(next_back), .highest_o(highest_back), .received_o(received_back));

    // A window that can be: the packets noted lie above the next expected one and below the highest, which is one of them.
    function automatic logic can_be(input logic [PSN_BITS-1:0] from, input logic [PSN_BITS-1:0] top,
                                    input logic [RING_PACKETS-1:0] ring);
        logic [PSN_BITS-1:0]  span;
        logic [RING_BITS-1:0] place;
        span = top - from;
        can_be = span <= PSN_BITS'(window_packets_i) && span != 1;
        for (int unsigned i = 0; i < RING_PACKETS; i = i + 1) begin
            place = from[RING_BITS-1:0] + RING_BITS'(i);
            if (i == 0 || PSN_BITS'(i) >= span) begin
                if (ring[place]) can_be = 1'b0;
            end else if (PSN_BITS'(i) == span - 1'b1) begin
                if (!ring[place]) can_be = 1'b0;
            end
        end
    endfunction

    // The watched packet has arrived.
    function automatic logic has(input logic [PSN_BITS-1:0] from, input logic [RING_PACKETS-1:0] ring);
        logic [PSN_BITS-1:0] ahead;
        ahead = watched_i - from;
        has = ahead[PSN_BITS-1] || (ahead < PSN_BITS'(window_packets_i) && ring[watched_i[RING_BITS-1:0]]);
    endfunction

    logic [PSN_BITS-1:0] ahead, watched_ahead;
    logic accepted;
    assign ahead = psn_i - next_i;
    assign watched_ahead = watched_i - next_i;
    assign accepted = verdict == plait_regmap_pkg::WINDOW_VERDICT_ACCEPT;

    always_comb begin
        assume (window_packets_i != '0 && (window_packets_i & (window_packets_i - 1'b1)) == '0);
        assume (can_be(next_i, highest_i, received_i));
        // What is near the window, so that nothing changes sides when it moves.
        assume (watched_ahead[PSN_BITS-1] == watched_ahead[PSN_BITS-2]);

        assert (can_be(next, highest, received));
        assert (has(next, received) == (has(next_i, received_i) || (accepted && watched_i == psn_i)));
        assert (advanced == (next != next_i));
        if (watched_i == psn_i) begin
            assert (accepted == (!has(next_i, received_i) && ahead < PSN_BITS'(window_packets_i)));
            assert ((verdict == plait_regmap_pkg::WINDOW_VERDICT_DUPLICATE) == has(next_i, received_i));
        end
        if (accepted) assert (next_back == next_i && highest_back == highest_i && received_back == received_i);
    end
endmodule
