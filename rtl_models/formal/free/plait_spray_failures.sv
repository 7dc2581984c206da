// Stands for the cell where a proof is not about what it computes: its outputs are anything in any cycle.
module plait_spray_failures #(
    parameter int unsigned ENTROPIES = 256,
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES)
) (
    input  logic [ENTROPIES*INDEX_BITS-1:0] lists_i,
    input  logic [INDEX_BITS-1:0]           first_i,
    input  logic [INDEX_BITS:0]             count_i,
    input  logic [INDEX_BITS-1:0]           position_i,
    input  logic                            remove_i,
    input  logic                            add_i,
    output logic [ENTROPIES*INDEX_BITS-1:0] lists_o
);
    (* anyseq *) logic [ENTROPIES*INDEX_BITS-1:0] anything;
    assign lists_o = anything;
endmodule
