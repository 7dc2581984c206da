// Pages that are free: first those that were never taken, then those that came back, the oldest first.
module plait_reduce_pages #(
    parameter int unsigned PAGES = 1024,
    localparam int unsigned PAGE_BITS = $clog2(PAGES)
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,       // synchronous; all are free
    output logic [PAGE_BITS:0]   free_o,
    output logic [PAGE_BITS-1:0] page_o,       // the next one, when one is free
    input  logic                 take_i,
    input  logic                 give_back_i,
    input  logic [PAGE_BITS-1:0] given_page_i
);
    if (PAGES < 2 || PAGES != 1 << PAGE_BITS) $fatal(1, "plait_reduce_pages: PAGES is %0d, expected a power of two, 2 at least", PAGES);

    logic [PAGE_BITS:0]   fresh_q, free_q;  // never taken: from fresh_q on
    logic [PAGE_BITS-1:0] first_q, first, next_q, returned;
    logic                 is_fresh;
    assign is_fresh = fresh_q != (PAGE_BITS + 1)'(PAGES);
    assign free_o = free_q;
    assign page_o = is_fresh ? fresh_q[PAGE_BITS-1:0] : returned;
    assign first = take_i && !is_fresh ? first_q + 1'b1 : first_q;

    plait_ram #(.WORDS(PAGES), .BITS(PAGE_BITS)) u_returned (
        .clk_i, .read_i(1'b1), .read_address_i(first), .data_o(returned), .write_i(give_back_i), .write_address_i(next_q),
        .data_i(given_page_i));

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            fresh_q <= '0;
            free_q <= (PAGE_BITS + 1)'(PAGES);
            first_q <= '0;
            next_q <= '0;
        end else begin
            if (take_i && is_fresh) fresh_q <= fresh_q + 1'b1;
            first_q <= first;
            if (give_back_i) next_q <= next_q + 1'b1;
            free_q <= free_q - (PAGE_BITS + 1)'(take_i) + (PAGE_BITS + 1)'(give_back_i);
        end
    end
endmodule
