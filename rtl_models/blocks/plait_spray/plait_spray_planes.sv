// Which entropy values belong to which plane: value i to plane i modulo the number of planes. No state.
module plait_spray_planes #(
    parameter int unsigned PLANES = 8,
    parameter int unsigned ENTROPIES = 256,
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1)
) (
    input  logic [COUNT_BITS-1:0]       planes_i,  // in use
    output logic [PLANES*ENTROPIES-1:0] masks_o    // of each plane, the lowest first; zero of those that are not in use
);
    /* verilator coverage_off */  // runs at elaboration
    function automatic logic [ENTROPIES-1:0] places(input int unsigned divisor, input int unsigned residue);
        for (int unsigned i = 0; i < ENTROPIES; i = i + 1) places[i] = i % divisor == residue;
    endfunction
    /* verilator coverage_on */

    for (genvar plane = 0; plane < PLANES; plane = plane + 1) begin : g_plane
        logic [PLANES*ENTROPIES-1:0] of_number;  // of planes, from 1 on
        logic [ENTROPIES-1:0]        mask;
        for (genvar i = 0; i < PLANES; i = i + 1) begin : g_number
            localparam logic [ENTROPIES-1:0] PLACES = places(i + 1, plane);
            assign of_number[ENTROPIES*i +: ENTROPIES] = planes_i == COUNT_BITS'(i + 1) ? PLACES : '0;
        end
        always_comb begin
            mask = '0;
            for (int unsigned i = 0; i < PLANES; i = i + 1) mask = mask | of_number[ENTROPIES*i +: ENTROPIES];
        end
        assign masks_o[ENTROPIES*plane +: ENTROPIES] = mask;
    end
endmodule
