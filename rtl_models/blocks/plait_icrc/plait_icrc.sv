// The invariant CRC of packets, 64 bytes a cycle: what firmware/engines' icrc() is. Packets follow each other without a gap; answers
// come in order, 6 cycles after a packet's last beat while rsp_ready_i is high.
//
//   mask     ones in the fields that may change, zeros behind the packet's end
//   sum      the beat's own part of the CRC
//   state    the packet's CRC so far, as if its last beat had 64 bytes
//   unwind   three stages: takes back the zeros behind the end, 1 + 2, 4 + 8 and 16 + 32 of them
//
// A CRC is linear, so the state after a beat is the state before it after 64 bytes of zeros plus the beat's own part, and zeros
// can be taken back.
module plait_icrc (
    input  logic         clk_i,
    input  logic         rst_ni,  // synchronous; forgets packets that are not complete

    input  logic         cmd_valid_i,
    output logic         cmd_ready_o,
    input  logic [511:0] cmd_data_i,   // from the first byte of the IP header to the last pad byte; byte 0 is the first
    input  logic [6:0]   cmd_bytes_i,  // in this beat: 64, or 1 .. 64 in a packet's last
    input  logic         cmd_last_i,

    output logic         rsp_valid_o,
    input  logic         rsp_ready_i,
    output logic [7:0]   rsp_status_o,  // status_e: invalid_length when a beat had another number of bytes, rsp_icrc_o is zero then
    output logic [31:0]  rsp_icrc_o
);
    localparam logic [31:0] POLYNOMIAL = 32'hedb88320;  // IEEE 802.3, reflected
    localparam logic [31:0] START = 32'hdebb20e3;       // after eight bytes of ones, which stand for a local route header

    /* verilator coverage_off */  // runs at elaboration
    // The states that the unit vectors become after `count` bytes of zeros, or were before them.
    function automatic logic [1023:0] zeros_ahead(input int unsigned count);
        logic [31:0] state;
        for (int unsigned i = 0; i < 32; i = i + 1) begin
            state = 32'b1 << i;
            for (int unsigned j = 0; j < 8 * count; j = j + 1) state = (state >> 1) ^ (state[0] ? POLYNOMIAL : 32'b0);
            zeros_ahead[32*i +: 32] = state;
        end
    endfunction

    function automatic logic [1023:0] zeros_back(input int unsigned count);
        logic [31:0] state;
        for (int unsigned i = 0; i < 32; i = i + 1) begin
            state = 32'b1 << i;
            for (int unsigned j = 0; j < 8 * count; j = j + 1)
                state = state[31] ? ((state ^ POLYNOMIAL) << 1) | 32'b1 : state << 1;
            zeros_back[32*i +: 32] = state;
        end
    endfunction

    // The state that each bit of a beat leaves, the first byte's after 64 steps of a byte, the last one's after one.
    function automatic logic [16383:0] beat_columns();
        logic [31:0] state;
        for (int unsigned i = 0; i < 8; i = i + 1) begin
            state = 32'b1 << i;
            for (int unsigned j = 0; j < 64; j = j + 1) begin
                for (int unsigned k = 0; k < 8; k = k + 1) state = (state >> 1) ^ (state[0] ? POLYNOMIAL : 32'b0);
                beat_columns[32*(8*(63-j)+i) +: 32] = state;
            end
        end
    endfunction
    /* verilator coverage_on */

    logic advance;
    assign advance = !rsp_valid_o || rsp_ready_i;
    assign cmd_ready_o = advance;

    // Mask. The length is wrong for good once it was in a beat of the packet.
    logic         starts_q, is_wrong_q;
    logic         is_wrong;
    logic [511:0] masked, inside_bytes;

    plait_icrc_mask u_mask (.data_i(cmd_data_i), .data_o(masked));

    assign is_wrong = (!starts_q && is_wrong_q) || cmd_bytes_i == '0 || cmd_bytes_i > 7'd64 || (!cmd_last_i && cmd_bytes_i != 7'd64);
    assign inside_bytes = ~({512{1'b1}} << {cmd_bytes_i, 3'b0});

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            starts_q <= 1'b1;
            is_wrong_q <= 1'b0;
        end else if (advance && cmd_valid_i) begin
            starts_q <= cmd_last_i;
            is_wrong_q <= is_wrong;
        end
    end

    // Stages, the earliest first: a beat is in it, begins or ends a packet, has a wrong length, and how many zeros follow its end.
    localparam int unsigned MASKED = 0, SUMMED = 1, STATE = 2, UNWOUND = 5;
    logic [UNWOUND:0] valid_q;
    logic [SUMMED:0]  first_q;
    logic [STATE:0]   last_q;
    logic [UNWOUND:0] wrong_q;
    logic [5:0]       zeros_q [UNWOUND];
    logic [511:0]     data_q;

    always_ff @(posedge clk_i) begin
        if (!rst_ni) begin
            valid_q <= '0;
        end else if (advance) begin
            // Behind the state there are whole packets.
            valid_q <= {valid_q[UNWOUND-1:STATE+1], valid_q[STATE] && last_q[STATE], valid_q[SUMMED:MASKED], cmd_valid_i};
        end
        if (advance) begin
            first_q <= {first_q[MASKED], starts_q};
            last_q <= {last_q[SUMMED:MASKED], cmd_last_i};
            wrong_q <= {wrong_q[UNWOUND-1:0], is_wrong};
            zeros_q[MASKED] <= 6'(7'd64 - cmd_bytes_i);
            for (int unsigned i = 1; i < UNWOUND; i = i + 1) zeros_q[i] <= zeros_q[i-1];
            data_q <= (starts_q ? masked : cmd_data_i) & inside_bytes;
        end
    end

    // Sum.
    logic [31:0] sum, sum_q;
    plait_linear_map #(.INPUTS(512), .COLUMNS(beat_columns())) u_sum (.bits_i(data_q), .bits_o(sum));
    always_ff @(posedge clk_i) if (advance) sum_q <= sum;

    // State. It is the packet's alone: another one's begins anew.
    logic [31:0] state_q, before_beat, after_zeros;
    assign before_beat = first_q[SUMMED] ? START : state_q;
    plait_linear_map #(.COLUMNS(zeros_ahead(64))) u_state (.bits_i(before_beat), .bits_o(after_zeros));
    always_ff @(posedge clk_i) if (advance && valid_q[SUMMED]) state_q <= after_zeros ^ sum_q;

    // Unwind.
    logic [31:0] unwound_q [3];
    for (genvar i = 0; i < 3; i = i + 1) begin : g_unwind
        logic [31:0] from, less_one, without_one, less_two, without_two;
        assign from = i == 0 ? state_q : unwound_q[i == 0 ? 0 : i - 1];
        plait_linear_map #(.COLUMNS(zeros_back(1 << (2 * i)))) u_one (.bits_i(from), .bits_o(less_one));
        assign without_one = zeros_q[STATE+i][2*i] ? less_one : from;
        plait_linear_map #(.COLUMNS(zeros_back(2 << (2 * i)))) u_two (.bits_i(without_one), .bits_o(less_two));
        assign without_two = zeros_q[STATE+i][2*i+1] ? less_two : without_one;
        always_ff @(posedge clk_i) if (advance) unwound_q[i] <= without_two;
    end

    assign rsp_valid_o = valid_q[UNWOUND];
    assign rsp_status_o = wrong_q[UNWOUND] ? plait_regmap_pkg::STATUS_INVALID_LENGTH : plait_regmap_pkg::STATUS_OK;
    assign rsp_icrc_o = wrong_q[UNWOUND] ? '0 : ~unwound_q[2];
endmodule
