// Puts rows together: for each row the words of its codes, then those of its scales. A refused row is one word without bytes.
module plait_quantise_words #(
    parameter int unsigned TAG_BITS = 32,
    parameter int unsigned BYTE_COUNT_BITS = 17,
    parameter int unsigned COUNT_BITS = 15
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,

    input  logic                         row_valid_i,   // the oldest row; taken with its last word
    input  logic [TAG_BITS-1:0]          tag_i,
    input  logic [7:0]                   status_i,
    input  logic [BYTE_COUNT_BITS-1:0]   code_bytes_i,
    input  logic [BYTE_COUNT_BITS-1:0]   scale_bytes_i,
    output logic                         row_taken_o,

    input  logic                         end_valid_i,   // its count, once all is encoded; taken with the row
    input  logic [COUNT_BITS-1:0] non_finite_i,

    input  logic                         code_valid_i,
    input  logic [511:0]                 code_word_i,
    output logic                         code_taken_o,
    input  logic                         scale_valid_i,
    input  logic [511:0]                 scale_word_i,
    output logic                         scale_taken_o,

    output logic                         out_valid_o,
    input  logic                         out_ready_i,
    output logic [511:0]                 out_data_o,
    output logic [6:0]                   out_bytes_o,
    output logic                         out_scales_o,
    output logic                         out_last_o,
    output logic [TAG_BITS-1:0]          out_tag_o,
    output logic [7:0]                   out_status_o,
    output logic [COUNT_BITS-1:0] out_non_finite_o
);
    logic                       in_scales_q, begun_q, is_refused, ends_part, is_last, is_valid, taken;
    logic [BYTE_COUNT_BITS-1:0] left_q, left;
    assign is_refused = status_i != plait_regmap_pkg::STATUS_OK;
    assign left = begun_q ? left_q : code_bytes_i;
    assign ends_part = left <= BYTE_COUNT_BITS'(64);
    assign is_last = is_refused || (ends_part && (in_scales_q || scale_bytes_i == '0));
    assign is_valid = row_valid_i && (is_refused || ((in_scales_q ? scale_valid_i : code_valid_i) && (!is_last || end_valid_i)));
    assign taken = is_valid && (!out_valid_o || out_ready_i);
    assign code_taken_o = taken && !is_refused && !in_scales_q;
    assign scale_taken_o = taken && in_scales_q;
    assign row_taken_o = taken && is_last;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            out_valid_o <= 1'b0;
            begun_q <= 1'b0;
            in_scales_q <= 1'b0;
        end else begin
            if (!out_valid_o || out_ready_i) out_valid_o <= is_valid;
            if (taken) begin
                begun_q <= !is_last;
                in_scales_q <= !is_last && (in_scales_q || ends_part);
                left_q <= ends_part ? scale_bytes_i : left - BYTE_COUNT_BITS'(64);
            end
        end
        if (taken) begin
            out_data_o <= is_refused ? '0 : in_scales_q ? scale_word_i : code_word_i;
            out_bytes_o <= is_refused ? '0 : ends_part ? left[6:0] : 7'd64;
            out_scales_o <= in_scales_q;
            out_last_o <= is_last;
            out_tag_o <= tag_i;
            out_status_o <= status_i;
            out_non_finite_o <= is_refused || !is_last ? '0 : non_finite_i;
        end
    end
endmodule
