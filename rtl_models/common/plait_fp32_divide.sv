// The quotient of two positive normal FP32 numbers, rounded to nearest even, STAGES + 1 steps later; the dividend may be zero.
// The quotient must be a normal number. Operands come without their signs.
module plait_fp32_divide #(
    parameter int unsigned STAGE_BITS = 4,  // of the quotient that a stage makes
    localparam int unsigned STAGES = (27 + STAGE_BITS - 1) / STAGE_BITS,
    localparam int unsigned BITS = STAGES * STAGE_BITS
) (
    input  logic        clk_i,
    input  logic [30:0] a_i,
    input  logic [30:0] b_i,
    output logic [31:0] quotient_o
);
    if (STAGE_BITS < 1 || STAGE_BITS > 9) $fatal(1, "plait_fp32_divide: STAGE_BITS is %0d, expected 1 .. 9", STAGE_BITS);

    // What is left of the dividend, the divisor, and the bits so far. Each step doubles the former and takes the latter off if it can.
    logic [24:0]        rest [STAGES+1];
    logic [23:0]        divisor [STAGES+1];
    logic [BITS-1:0]    quotient [STAGES+1];
    logic signed [10:0] exponent [STAGES+1];
    assign rest[0] = a_i[30:23] == '0 ? '0 : {1'b0, 1'b1, a_i[22:0]};
    assign divisor[0] = {1'b1, b_i[22:0]};
    assign quotient[0] = '0;
    assign exponent[0] = 11'(a_i[30:23]) - 11'(b_i[30:23]) + 11'd126;

    for (genvar i = 0; i < STAGES; i = i + 1) begin : g_stage
        logic [24:0]           left, next;
        logic [STAGE_BITS-1:0] bits;
        always_comb begin
            left = rest[i];
            bits = '0;
            for (int unsigned j = 0; j < STAGE_BITS; j = j + 1) begin
                bits = bits << 1;
                bits[0] = left >= {1'b0, divisor[i]};
                next = bits[0] ? left - {1'b0, divisor[i]} : left;
                left = next << 1;
            end
        end
        always_ff @(posedge clk_i) begin
            rest[i+1] <= left;
            divisor[i+1] <= divisor[i];
            quotient[i+1] <= BITS'({quotient[i], bits});
            exponent[i+1] <= exponent[i];
        end
    end

    logic [31:0] rounded;
    plait_fp32_round #(.BITS(BITS + 1)) u_round (
        .sign_i(1'b0), .exponent_i(exponent[STAGES]), .significand_i({quotient[STAGES], rest[STAGES] != '0}), .number_o(rounded));
    always_ff @(posedge clk_i) quotient_o <= rounded;
endmodule
