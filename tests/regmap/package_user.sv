// A top for lint (Verilator checks no package alone): it takes a header apart and makes a record, as a block would.
module package_user
    import plait_regmap_pkg::*;
(
    input  logic [8*BTH_BYTES-1:0] header,
    output logic is_ack,
    output logic [23:0] psn,
    output logic [8*COMPLETION_BYTES-1:0] record
);
    bth_t bth;
    completion_t completion;

    assign bth = header;
    assign is_ack = bth.opcode == OPCODE_MP_ACK;
    assign psn = bth.psn;

    always_comb begin
        completion = '0;
        completion.object = {8'd0, bth.destination_qp};
        completion.status = bth.version == 4'd0 ? STATUS_OK : STATUS_INVALID_OPCODE;
    end
    assign record = completion;

    wire unused = &{1'b0, bth};
endmodule
