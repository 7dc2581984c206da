// Packs beats of codes into words of 64 bytes, the first in the lowest bits; a row begins with a word of its own. A beat that
// fills more than a word at the end of a row takes two cycles, one of FP32 always.
module plait_quantise_pack (
    input  logic          clk_i,
    input  logic          rst_ni,
    input  logic          valid_i,
    output logic          ready_o,
    input  logic [1023:0] codes_i,
    input  logic [10:0]   bits_i,   // of them, a multiple of 256 or of 320, 512 or 1024, or less in a row's last beat
    input  logic          last_i,   // of its row
    output logic          valid_o,
    input  logic          ready_i,  // no word comes while it is low
    output logic [511:0]  word_o
);
    // What is left of the beats so far; none of it is a whole word. A beat of more than a word is taken by halves.
    logic [511:0]  rest_q;
    logic [8:0]    fill_q;
    logic          second_q;   // of a beat, its own half or what did not fit the row's last word but one
    logic          is_wide;
    logic [10:0]   bits, filled;
    logic [511:0]  codes;
    logic [1023:0] joined;
    logic          fills, flushes, again;

    assign is_wide = bits_i > 11'd512;
    assign codes = is_wide && second_q ? codes_i[1023:512] : codes_i[511:0];
    assign bits = is_wide ? (second_q ? bits_i - 11'd512 : 11'd512) : second_q ? '0 : bits_i;
    assign joined = {512'b0, rest_q} | (second_q && !is_wide ? '0 : {512'b0, codes} << fill_q);
    assign filled = 11'(fill_q) + bits;
    assign fills = filled >= 11'd512;
    assign again = !second_q && (is_wide || (last_i && filled > 11'd512));
    assign flushes = last_i && !again;

    assign ready_o = ready_i && !again;
    assign valid_o = valid_i && ready_i && (fills || flushes);
    assign word_o = joined[511:0];

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            fill_q <= '0;
            rest_q <= '0;
            second_q <= 1'b0;
        end else if (valid_i && ready_i) begin
            second_q <= again;
            fill_q <= flushes ? '0 : 9'(filled);
            if (flushes) rest_q <= '0;
            else rest_q <= fills ? joined[1023:512] : joined[511:0];
        end
    end
endmodule
