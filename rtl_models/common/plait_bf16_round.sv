// An FP32 number as BF16: rounded to nearest even, a NaN becomes 0x7fc0.
module plait_bf16_round (
    input  logic [31:0] number_i,
    output logic [15:0] bf16_o
);
    logic up;
    assign up = number_i[15] && (number_i[16] || number_i[14:0] != '0);
    assign bf16_o = number_i[30:0] > 31'h7f800000 ? 16'h7fc0 : number_i[31:16] + 16'(up);
endmodule
