// What a row of so many elements has of codes and scales.
module plait_row_bytes #(
    parameter int unsigned ELEMENT_COUNT_BITS = 15
) (
    input  logic [7:0]                    format_i,  // row_format_e
    input  logic [ELEMENT_COUNT_BITS-1:0] elements_i,
    output logic                          is_known_o,
    output logic [ELEMENT_COUNT_BITS+1:0] code_bytes_o,
    output logic [ELEMENT_COUNT_BITS-1:0] scale_bytes_o
);
    localparam int unsigned BITS = ELEMENT_COUNT_BITS;

    logic [BITS-1:0] blocks, quarters;
    assign blocks = BITS'((BITS + 1)'(elements_i) + (BITS + 1)'(plait_regmap_pkg::SCALE_BLOCK_ELEMENTS - 1)
                          >> $clog2(plait_regmap_pkg::SCALE_BLOCK_ELEMENTS));
    assign quarters = BITS'((BITS + 1)'(elements_i) + (BITS + 1)'(3) >> 2);

    always_comb begin
        is_known_o = 1'b1;
        code_bytes_o = (BITS + 2)'(elements_i);
        scale_bytes_o = blocks << 2;
        case (format_i)
            plait_regmap_pkg::ROW_FORMAT_BF16: begin
                code_bytes_o = (BITS + 2)'(elements_i) << 1;
                scale_bytes_o = '0;
            end
            plait_regmap_pkg::ROW_FORMAT_F32: begin
                code_bytes_o = (BITS + 2)'(elements_i) << 2;
                scale_bytes_o = '0;
            end
            plait_regmap_pkg::ROW_FORMAT_LOGFMT10: code_bytes_o = (BITS + 2)'(elements_i) + (BITS + 2)'(quarters);
            plait_regmap_pkg::ROW_FORMAT_E4M3_UE8M0, plait_regmap_pkg::ROW_FORMAT_E5M2_UE8M0: scale_bytes_o = blocks;
            plait_regmap_pkg::ROW_FORMAT_E4M3_F32, plait_regmap_pkg::ROW_FORMAT_E5M2_F32, plait_regmap_pkg::ROW_FORMAT_LOGFMT8: ;
            default: is_known_o = 1'b0;
        endcase
    end
endmodule
