// Stands for the cell where a proof is not about what it computes: its outputs are anything in any cycle.
module plait_linear_map #(
    parameter int unsigned INPUTS = 32,
    parameter int unsigned OUTPUTS = 32,
    parameter logic [INPUTS*OUTPUTS-1:0] COLUMNS = '0
) (
    input  logic [INPUTS-1:0]  bits_i,
    output logic [OUTPUTS-1:0] bits_o
);
    (* anyseq *) logic [OUTPUTS-1:0] anything;
    assign bits_o = anything;
endmodule
