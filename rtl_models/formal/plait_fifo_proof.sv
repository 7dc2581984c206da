// From reset on, however it is pushed and popped: what comes out is what went in, in order, none lost or repeated.
module plait_fifo_proof (
    input logic       clk_i,
    input logic       push_i,
    input logic       pop_i,
    input logic [1:0] data_i
);
    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic       can_push, can_pop;
    logic [1:0] data;
    plait_fifo #(.WORDS(4), .BITS(2)) u_fifo (
        .clk_i, .rst_ni(rst_n), .can_push_o(can_push), .push_i, .data_i, .can_pop_o(can_pop), .pop_i, .data_o(data));

    // The words inside, the oldest first.
    logic [9:0] words;
    logic [2:0] count = '0;
    logic [9:0] left;
    assign left = pop_i ? words >> 2 : words;
    always_ff @(posedge clk_i) if (rst_n) begin
        words <= left;
        if (push_i) words[2*3'(count - 3'(pop_i)) +: 2] <= data_i;
        count <= count + 3'(push_i) - 3'(pop_i);
    end

    always_comb if (rst_n) begin
        if (!can_push) assume (!push_i);
        if (!can_pop) assume (!pop_i);
        assert (can_pop == (count != '0) && can_push == (count != 3'd4));
        if (can_pop) assert (data == words[1:0]);
    end
endmodule
