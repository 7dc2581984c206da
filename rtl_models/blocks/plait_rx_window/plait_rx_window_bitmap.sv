// Which packets from a PSN on have arrived: all below the next expected one, none beyond the window.
module plait_rx_window_bitmap #(
    parameter int unsigned PSN_BITS = 24,
    parameter int unsigned RING_PACKETS = 512,
    parameter int unsigned BITMAP_BITS = 128,
    localparam int unsigned RING_BITS = $clog2(RING_PACKETS)
) (
    input  logic [PSN_BITS-1:0]     base_i,  // within a quarter of the space of next_i
    input  logic [PSN_BITS-1:0]     next_i,
    input  logic [RING_BITS:0]      window_packets_i,
    input  logic [RING_PACKETS-1:0] received_i,
    output logic [BITMAP_BITS-1:0]  bitmap_o
);
    localparam logic [BITMAP_BITS-1:0] ALL = {BITMAP_BITS{1'b1}};

    logic [PSN_BITS-1:0]    behind, room;  // packets from the base to the next expected one, and to the window's end
    logic                   has_behind, has_room;
    logic [BITMAP_BITS-1:0] below, reach, turned;

    assign behind = next_i - base_i;
    assign has_behind = !behind[PSN_BITS-1];
    assign below = has_behind ? ~(ALL << behind) : '0;

    assign room = behind + PSN_BITS'(window_packets_i);
    assign has_room = !room[PSN_BITS-1];
    assign reach = has_room ? ~(ALL << room) : '0;

    assign turned = BITMAP_BITS'({received_i, received_i} >> base_i[RING_BITS-1:0]);
    assign bitmap_o = below | (turned & reach);
endmodule
