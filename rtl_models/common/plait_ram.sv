// A memory of one read and one write port. A read sees what is written in the same cycle.
module plait_ram #(
    parameter int unsigned WORDS = 1024,
    parameter int unsigned BITS = 32,
    localparam int unsigned ADDRESS_BITS = $clog2(WORDS)
) (
    input  logic                    clk_i,
    input  logic                    read_i,          // data_o changes in the next cycle, and only then
    input  logic [ADDRESS_BITS-1:0] read_address_i,
    output logic [BITS-1:0]         data_o,
    input  logic                    write_i,
    input  logic [ADDRESS_BITS-1:0] write_address_i,
    input  logic [BITS-1:0]         data_i
);
    if (WORDS < 2) $fatal(1, "plait_ram: WORDS is %0d, expected at least 2", WORDS);

    logic [BITS-1:0] words [WORDS];

    always_ff @(posedge clk_i) begin
        if (write_i) words[write_address_i] <= data_i;
        if (read_i) data_o <= write_i && write_address_i == read_address_i ? data_i : words[read_address_i];
    end
endmodule
