// A read gives what was written last, in the same cycle too, and its data stay until the next read.
module plait_ram_proof #(
    localparam int unsigned WORDS = 4,
    localparam int unsigned BITS = 2
) (
    input logic            clk_i,
    input logic            read_i,
    input logic [1:0]      read_address_i,
    input logic            write_i,
    input logic [1:0]      write_address_i,
    input logic [BITS-1:0] data_i
);
    (* anyconst *) logic [1:0] watched;

    logic [BITS-1:0] data;
    plait_ram #(.WORDS(WORDS), .BITS(BITS)) u_ram (
        .clk_i, .read_i, .read_address_i, .data_o(data), .write_i, .write_address_i, .data_i);

    // What the watched word holds, and what the last read is to have given.
    logic            is_known = 1'b0, is_expected = 1'b0;
    logic [BITS-1:0] word, expected;
    logic            writes;
    assign writes = write_i && write_address_i == watched;

    always_ff @(posedge clk_i) begin
        if (writes) begin
            is_known <= 1'b1;
            word <= data_i;
        end
        if (read_i) begin
            is_expected <= read_address_i == watched && (is_known || writes);
            expected <= writes ? data_i : word;
        end
    end

    always_comb if (is_expected) assert (data == expected);
endmodule
