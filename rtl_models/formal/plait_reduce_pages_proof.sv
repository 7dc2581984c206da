// From reset on, whoever takes pages that are free and gives back pages that are taken: no page is taken by two, and as many are free as
// the block says, so that never more are taken than there are.
module plait_reduce_pages_proof #(
    localparam int unsigned PAGES = 4
) (
    input logic       clk_i,
    input logic       take_i,
    input logic       give_back_i,
    input logic [1:0] given_page_i
);
    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic [2:0] free;
    logic [1:0] page;
    plait_reduce_pages #(.PAGES(PAGES)) u_pages (
        .clk_i, .rst_ni(rst_n), .free_o(free), .page_o(page), .take_i, .give_back_i, .given_page_i);

    logic [PAGES-1:0] taken = '0;
    always_ff @(posedge clk_i) begin
        if (rst_n && take_i) taken[page] <= 1'b1;
        if (rst_n && give_back_i) taken[given_page_i] <= 1'b0;
    end

    always_comb if (rst_n) begin
        if (free == '0) assume (!take_i);
        assume (!give_back_i || taken[given_page_i]);
        assert (free == 3'd4 - 3'(taken[0]) - 3'(taken[1]) - 3'(taken[2]) - 3'(taken[3]));
        if (take_i) assert (!taken[page]);
    end
endmodule
