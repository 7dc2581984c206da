// What a LogFMT tile's header says: how far apart its codes are.
module plait_logfmt_scale (
    input  logic        clk_i,
    input  logic        is_10_i,       // codes of 10 bits, else of 8
    input  logic [15:0] min_i,         // BF16
    input  logic [15:0] max_i,
    output logic [31:0] log_min_o,     // log2, units of 2^-25, modulo 2^32; a step later
    output logic [30:0] log_range_o,   // of max / min, units of 2^-25, FP32; two steps later
    output logic [31:0] step_o,        // of log2 from one code to the next, FP32; 10 steps later
    output logic        is_sound_o     // an encoder can have written the header; 10 steps later
);
    localparam int unsigned STEPS = 10;

    logic signed [8:0] min_exponent, max_exponent;
    logic [6:0]        min_fraction, max_fraction;
    logic [24:0]       min_log, max_log;
    plait_logfmt_log2 u_min (.magnitude_i(min_i[14:0]), .exponent_o(min_exponent), .fraction_o(min_fraction), .log2_o(min_log));
    plait_logfmt_log2 u_max (.magnitude_i(max_i[14:0]), .exponent_o(max_exponent), .fraction_o(max_fraction), .log2_o(max_log));

    // Finite, positive, ordered, both zero or neither, at most 32 octaves apart.
    logic signed [16:0] apart;
    logic               is_sound;
    assign apart = {max_exponent[8], max_exponent, max_fraction} - {min_exponent[8], min_exponent, min_fraction};
    assign is_sound = max_i < 16'h7f80 && min_i <= max_i && (min_i == '0) == (max_i == '0) && apart <= 17'sd4096;

    logic [31:0]      log_range_q;
    logic             is_10_q, is_10_qq;
    logic [STEPS-1:0] sound_q;
    logic [30:0]      log_range;
    logic             unused_sign;
    plait_fp32_round #(.BITS(32)) u_range (
        .sign_i(1'b0), .exponent_i(11'sd157), .significand_i(log_range_q), .number_o({unused_sign, log_range}));
    always_ff @(posedge clk_i) begin
        log_min_o <= {min_exponent[6:0], min_log};
        log_range_q <= {max_exponent[6:0], max_log} - {min_exponent[6:0], min_log};
        log_range_o <= log_range;
        is_10_q <= is_10_i;
        is_10_qq <= is_10_q;
        sound_q <= {sound_q[STEPS-2:0], is_sound};
    end
    assign is_sound_o = sound_q[STEPS-1];

    logic [30:0] octaves;
    assign octaves = log_range_o == '0 ? '0 : {log_range_o[30:23] - 8'd25, log_range_o[22:0]};
    plait_fp32_divide u_step (.clk_i, .a_i(octaves), .b_i(is_10_qq ? 31'h43ff0000 : 31'h42fc0000), .quotient_o(step_o));
endmodule
