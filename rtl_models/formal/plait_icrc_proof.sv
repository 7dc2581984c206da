// From reset on, whatever beats come and however answers are held up: each packet has one answer, in order, which stays until it is
// taken and says whether the packet's lengths were right. What the CRC is plays no part.
module plait_icrc_proof (
    input logic         clk_i,
    input logic         cmd_valid_i,
    input logic [511:0] cmd_data_i,
    input logic [6:0]   cmd_bytes_i,
    input logic         cmd_last_i,
    input logic         rsp_ready_i
);
    logic rst_n = 1'b0;
    always_ff @(posedge clk_i) rst_n <= 1'b1;

    logic        cmd_ready, rsp_valid;
    logic [7:0]  status;
    logic [31:0] icrc;

    plait_icrc u_icrc (
        .clk_i, .rst_ni(rst_n), .cmd_valid_i, .cmd_ready_o(cmd_ready), .cmd_data_i, .cmd_bytes_i, .cmd_last_i,
        .rsp_valid_o(rsp_valid), .rsp_ready_i, .rsp_status_o(status), .rsp_icrc_o(icrc));

    // Complete packets without an answer yet, the oldest first: which have a wrong length.
    logic [7:0] wrong;
    logic [3:0] count = '0;
    logic       so_far = 1'b0;
    logic       given, taken, is_wrong;
    assign given = cmd_valid_i && cmd_ready && rst_n;
    assign taken = rsp_valid && rsp_ready_i && rst_n;
    assign is_wrong = so_far || cmd_bytes_i > 64 || (cmd_last_i ? cmd_bytes_i == 0 : cmd_bytes_i < 64);

    logic        was_held = 1'b0;
    logic [39:0] held;

    always_ff @(posedge clk_i) begin
        if (given) so_far <= is_wrong && !cmd_last_i;
        if (taken) wrong[6:0] <= wrong[7:1];
        if (given && cmd_last_i) wrong[3'(count - 4'(taken))] <= is_wrong;
        count <= count + 4'(given && cmd_last_i) - 4'(taken);
        was_held <= rst_n && rsp_valid && !rsp_ready_i;
        held <= {status, icrc};
    end

    always_comb if (rst_n) begin
        assert (count <= 6);
        if (rsp_valid) assert (count != '0);
        if (count == 6) assert (rsp_valid);
        if (was_held) assert (rsp_valid && {status, icrc} == held);
        if (taken) assert ((status == plait_regmap_pkg::STATUS_INVALID_LENGTH) == wrong[0]);
        if (taken) assert ((status == plait_regmap_pkg::STATUS_OK) == !wrong[0]);
    end
endmodule
