// Where a sum's word of 64 elements lies.
module plait_reduce_place #(
    parameter int unsigned PAGES = 1024,
    parameter int unsigned PAGE_ELEMENTS = 512,
    localparam int unsigned SUM_PAGES = 8,
    localparam int unsigned PAGE_BITS = $clog2(PAGES),
    localparam int unsigned OFFSET_BITS = $clog2(PAGE_ELEMENTS / 64),
    localparam int unsigned INDEX_BITS = $clog2(SUM_PAGES) + OFFSET_BITS,
    localparam int unsigned WORD_BITS = PAGE_BITS + OFFSET_BITS
) (
    input  logic [SUM_PAGES*PAGE_BITS-1:0] pages_i,
    input  logic [INDEX_BITS-1:0]          index_i,
    output logic [WORD_BITS-1:0]           word_o
);
    logic [PAGE_BITS-1:0] page;
    assign page = pages_i[PAGE_BITS*index_i[INDEX_BITS-1:OFFSET_BITS] +: PAGE_BITS];
    if (OFFSET_BITS == 0) begin : g_page
        assign word_o = page;
    end else begin : g_word
        assign word_o = {page, index_i[OFFSET_BITS-1:0]};
    end
endmodule
