// Stands for the cell where a proof is not about what it computes: its outputs are anything in any cycle.
module plait_spray_setup #(
    parameter int unsigned PLANES = 8,
    parameter int unsigned ENTROPIES = 256,
    localparam int unsigned PLANE_BITS = $clog2(PLANES),
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES),
    localparam int unsigned COUNT_BITS = $clog2(PLANES + 1),
    localparam int unsigned KEY_BITS = 28
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         start_i,
    input  logic                         take_i,
    input  logic [31:0]                  seed_i,
    input  logic [COUNT_BITS-1:0]        planes_i,
    input  logic [INDEX_BITS:0]          entropies_i,
    input  logic [INDEX_BITS:0]          per_plane_i,
    output logic                         done_o,
    output logic [PLANE_BITS-1:0]        plane_o,
    output logic [INDEX_BITS-1:0]        index_o,
    output logic [PLANES*INDEX_BITS-1:0] cursors_o,
    output logic [PLANES*KEY_BITS-1:0]   keys_o
);
    (* anyseq *) logic [1+PLANE_BITS+INDEX_BITS+PLANES*(INDEX_BITS+KEY_BITS)-1:0] anything;
    assign {done_o, plane_o, index_o, cursors_o, keys_o} = anything;
endmodule
