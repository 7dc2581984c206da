// Which planes a queue pair's next packet should take. One with few packets in flight keeps its planes even in bytes, and is due on
// those that have got the fewest; one with more takes any. No state.
module plait_spray_due #(
    parameter int unsigned PLANES = 8,
    parameter int unsigned BYTES_BITS = 16,
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1),
    localparam int unsigned FLIGHT_BITS = 16
) (
    input  logic                          is_spray_i,   // its policy
    input  logic [PLANES-1:0]             up_i,         // planes that are up, and not excluded
    input  logic [PLANES-1:0]             offered_i,    // and have credit
    input  logic [FLIGHT_BITS-1:0]        total_i,      // packets in flight, and those on each plane
    input  logic [PLANES*FLIGHT_BITS-1:0] in_flight_i,
    input  logic [PLANES*BYTES_BITS-1:0]  ahead_i,      // bytes that a plane has got more than the one with the fewest
    output logic                          any_o,
    output logic [PLANES-1:0]             due_o,        // all ones when any is
    output logic [PLANES*BYTES_BITS-1:0]  ahead_o,      // when not any is: what they are ahead of those that are due; of others, nothing
    output logic [PLANES-1:0]             least_o       // offered ones with the fewest packets in flight
);
    logic [PLANES-1:0]      behind;
    logic [BYTES_BITS-1:0]  fewest_bytes;
    logic [FLIGHT_BITS-1:0] fewest_packets;
    logic [COUNT_BITS:0]    few;

    always_comb begin
        few = '0;
        fewest_bytes = {BYTES_BITS{1'b1}};
        fewest_packets = {FLIGHT_BITS{1'b1}};
        for (int unsigned p = 0; p < PLANES; p = p + 1) begin
            if (up_i[p]) few = few + (COUNT_BITS+1)'(2);
            if (up_i[p] && ahead_i[BYTES_BITS*p +: BYTES_BITS] < fewest_bytes) fewest_bytes = ahead_i[BYTES_BITS*p +: BYTES_BITS];
            if (offered_i[p] && in_flight_i[FLIGHT_BITS*p +: FLIGHT_BITS] < fewest_packets)
                fewest_packets = in_flight_i[FLIGHT_BITS*p +: FLIGHT_BITS];
        end
    end

    for (genvar p = 0; p < PLANES; p = p + 1) begin : g_plane
        assign behind[p] = up_i[p] && ahead_i[BYTES_BITS*p +: BYTES_BITS] == fewest_bytes;
        assign ahead_o[BYTES_BITS*p +: BYTES_BITS] = up_i[p] ? ahead_i[BYTES_BITS*p +: BYTES_BITS] - fewest_bytes : '0;
        assign least_o[p] = offered_i[p] && in_flight_i[FLIGHT_BITS*p +: FLIGHT_BITS] == fewest_packets;
    end
    assign any_o = !is_spray_i || up_i == '0 || total_i > FLIGHT_BITS'(few);
    assign due_o = any_o ? {PLANES{1'b1}} : behind;
endmodule
