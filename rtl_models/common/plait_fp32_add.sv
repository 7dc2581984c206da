// The sum of two FP32 numbers, rounded to nearest even; a NaN is 0x7fc00000.
module plait_fp32_add (
    input  logic [31:0] a_i,
    input  logic [31:0] b_i,
    output logic [31:0] sum_o
);
    // The larger and the smaller magnitude; three bits behind the significands keep what rounding needs.
    logic [31:0]        larger, smaller;
    logic [7:0]         exponent, apart;
    logic [27:0]        significand, aligned, sum;
    logic [27:0]        back;
    logic signed [10:0] sum_exponent;
    assign {larger, smaller} = a_i[30:0] >= b_i[30:0] ? {a_i, b_i} : {b_i, a_i};
    assign exponent = larger[30:23] == '0 ? 8'd1 : larger[30:23];
    assign apart = exponent - (smaller[30:23] == '0 ? 8'd1 : smaller[30:23]);
    assign significand = {1'b0, larger[30:23] != '0, larger[22:0], 3'b0};
    assign back = {1'b0, smaller[30:23] != '0, smaller[22:0], 3'b0};
    assign aligned = apart > 8'd26 ? 28'(back != '0) : (back >> apart) | 28'(back >> apart << apart != back);
    assign sum = larger[31] == smaller[31] ? significand + aligned : significand - aligned;
    assign sum_exponent = {3'b0, exponent};

    logic        sign;
    logic [31:0] rounded;
    assign sign = sum == '0 ? a_i[31] && b_i[31] : larger[31];
    plait_fp32_round #(.BITS(28)) u_round (.sign_i(sign), .exponent_i(sum_exponent), .significand_i(sum), .number_o(rounded));

    logic is_nan;
    assign is_nan = larger[30:0] > 31'h7f800000 || (smaller[30:0] == 31'h7f800000 && a_i[31] != b_i[31]);
    assign sum_o = is_nan ? 32'h7fc00000 : larger[30:0] == 31'h7f800000 ? larger : rounded;
endmodule
