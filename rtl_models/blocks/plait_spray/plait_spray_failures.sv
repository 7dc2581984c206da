// The values of one plane that are assumed bad, the oldest failure first: one removed, or added as the latest, or both. No state.
// A plane's list begins at the place that its values would have if those of the planes before it came first.
module plait_spray_failures #(
    parameter int unsigned ENTROPIES = 256,
    localparam int unsigned INDEX_BITS = $clog2(ENTROPIES)
) (
    input  logic [ENTROPIES*INDEX_BITS-1:0] lists_i,     // of all planes
    input  logic [INDEX_BITS-1:0]           first_i,     // place of the plane's list
    input  logic [INDEX_BITS:0]             count_i,     // its length
    input  logic [INDEX_BITS-1:0]           position_i,  // the value's position in its plane
    input  logic                            remove_i,    // it is in the list
    input  logic                            add_i,
    output logic [ENTROPIES*INDEX_BITS-1:0] lists_o
);
    logic [ENTROPIES-1:0]  is_it, in_list, moves, added;
    logic [INDEX_BITS:0]   end_place, last_place;
    assign end_place = {1'b0, first_i} + count_i;
    assign last_place = end_place - (INDEX_BITS+1)'(remove_i);  // where a value is added

    assign in_list = ({ENTROPIES{1'b1}} << first_i) & ~({ENTROPIES{1'b1}} << end_place);
    assign moves = (~is_it + 1'b1) & in_list & {ENTROPIES{remove_i}};  // it and those after it
    assign added = {{ENTROPIES-1{1'b0}}, add_i} << last_place;

    for (genvar i = 0; i < ENTROPIES; i = i + 1) begin : g_place
        logic [INDEX_BITS-1:0] here, next;
        assign here = lists_i[INDEX_BITS*i +: INDEX_BITS];
        assign is_it[i] = in_list[i] && here == position_i;
        if (i + 1 < ENTROPIES) begin : g_next
            assign next = lists_i[INDEX_BITS*(i+1) +: INDEX_BITS];
        end else begin : g_end
            assign next = '0;
        end
        assign lists_o[INDEX_BITS*i +: INDEX_BITS] = added[i] ? position_i : moves[i] ? next : here;
    end
endmodule
