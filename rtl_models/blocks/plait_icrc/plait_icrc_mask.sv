// The first 64 bytes of a packet with ones in the fields that may change on the way (InfiniBand Architecture Specification, annex
// A17.3.3). All of those lie in them, for IPv4 and for IPv6.
module plait_icrc_mask (
    input  logic [511:0] data_i,  // byte 0 is the first one of the IP header
    output logic [511:0] data_o
);
    localparam int unsigned UDP_CHECKSUM = 6;
    localparam int unsigned BTH_CONGESTION = plait_regmap_pkg::UDP_BYTES + 4;  // FECN, BECN and the reserved bits beside them

    /* verilator coverage_off */  // runs at elaboration
    function automatic logic [511:0] ones_at(input int unsigned byte_number);
        ones_at = 512'hff << (8 * byte_number);
    endfunction
    /* verilator coverage_on */

    localparam logic [511:0] BEHIND_IP = ones_at(UDP_CHECKSUM) | ones_at(UDP_CHECKSUM + 1) | ones_at(BTH_CONGESTION);
    localparam logic [511:0] IPV4 = ones_at(1)                      // type of service
        | ones_at(8) | ones_at(10) | ones_at(11)                    // time to live, header checksum
        | (BEHIND_IP << (8 * plait_regmap_pkg::IPV4_BYTES));
    localparam logic [511:0] IPV6 = 512'h0f                         // traffic class and flow label
        | ones_at(1) | ones_at(2) | ones_at(3) | ones_at(7)         // and hop limit
        | (BEHIND_IP << (8 * plait_regmap_pkg::IPV6_BYTES));

    assign data_o = data_i | (data_i[7:4] == 4'd6 ? IPV6 : IPV4);
endmodule
