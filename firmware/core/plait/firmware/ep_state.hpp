#pragma once
// State of EP groups: what the source, the entry device and the receiver of a row each remember about a call.
// All tables lie in the group's own part of table memory and are sized when the group is created.

#include <array>
#include <bit>
#include <cstdint>
#include <plait/firmware/commands.hpp>
#include <plait/firmware/ep_pace.hpp>
#include <plait/firmware/packet.hpp>
#include <plait/regmap.hpp>
#include <span>

namespace plait::firmware {

constexpr std::uint32_t no_index = 0xffffffffU;

/// A bit for each rank of a group.
using RankMask = std::array<std::uint64_t, regmap::max_ranks / 64>;
constexpr bool contains(const RankMask& mask, std::uint32_t rank) {
    return ((mask[rank / 64] >> (rank % 64)) & 1U) != 0;
}
constexpr void mark(RankMask& mask, std::uint32_t rank) {
    mask[rank / 64] |= std::uint64_t{1} << (rank % 64);
}

/// Serial comparison of operation numbers.
constexpr bool operation_before(std::uint16_t a, std::uint16_t b) {
    return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) < 0;
}

/// A row at its source: one node's copy of a token.
struct RowInfo {
    std::uint32_t token = 0;
    std::uint32_t next = no_index;  ///< Next row of this source by way of the same entry.
    std::uint32_t row = 0;          ///< Its number among those.
    std::uint32_t first_index = 0;  ///< Into EpHandle::indices, one a target in order of the mask's bits.
    std::uint32_t arrived = 0;      ///< Combine: parts that came back.
    std::uint16_t entry_rank = 0;
    std::uint16_t node = 0;
    std::uint8_t targets = 0;
    bool missing = false;  ///< Combine: a failed rank's share of it is not in the result.
};

/// The rows of a token: `count` RowInfo from `first` on, in order of nodes.
struct TokenRows {
    std::uint32_t first = 0;
    std::uint16_t count = 0;
    std::uint16_t parts_left = 0;  ///< Combine: parts of the result not yet placed.
};

/// What the source keeps about another rank.
struct Destination {
    std::uint32_t rows_to = 0;           ///< Rows whose target it is.
    std::uint32_t rows_via = 0;          ///< Rows that enter its node by it.
    std::uint32_t first_row = no_index;  ///< List of the latter.
    std::uint32_t last_row = no_index;
    std::uint32_t next_row = no_index;  ///< Next of them to send.
    std::uint32_t rows_in_flight = 0;
    std::uint32_t used = 0;             ///< Times it was chosen as an entry (policy target).
    std::uint32_t credited = 0;         ///< Combine: rows it may return,
    std::uint32_t announced = 0;        ///< those it has been told of,
    std::uint32_t returned = 0;         ///< and those that came back or never will.
    std::uint32_t weights_told = 0;     ///< Where credits carry weights: rows that it has them of, next_row
    std::uint32_t weights_telling = 0;  ///< follows; with the message on its way so many.
    std::uint8_t control_pending = 0;   ///< Bit per EpControlKind not yet handed to the transport.
    std::uint8_t control_in_flight = 0;
    std::uint16_t abort_operation = 0;   ///< What the pending abort is about.
    std::uint16_t joined_operation = 0;  ///< The same of the answer joined.
};

/// Kind of a call: the value of a `ready` message, so that ranks that do not post the same find out.
enum class CallKind : std::uint8_t { none, dispatch, cached_dispatch, combine };

/// Rows of this sender to one node: all of them, and those that have an entry already.
struct NodeRows {
    std::uint32_t total = 0;
    std::uint32_t done = 0;
};

/// What a `counts` message says.
struct PeerCounts {
    bool valid = false;
    std::uint16_t operation = 0;
    std::uint32_t rows_to_me = 0;
    std::uint32_t rows_via_me = 0;
    std::uint32_t rows_away = 0;  ///< To all other nodes.
};

/// What a peer has told about its calls on a handle. It may be a call ahead: what it says is kept until this
/// rank gets there.
struct alignas(64) PeerState {
    std::uint16_t ready_operation = 0;
    std::uint16_t credit_operation = 0;
    bool ready_valid = false;
    bool credit_valid = false;
    CallKind ready_kind = CallKind::none;
    bool gather_queued = false;  ///< In EpHandle::gather_ring.
    std::uint32_t credit = 0;
    // The routing in force.
    std::uint32_t rows_to_me = 0;
    std::uint32_t rows_via_me = 0;
    std::uint32_t base_slot = 0;   ///< First output slot of its rows.
    std::uint32_t entry_base = 0;  ///< First EntryRow of its rows.
    bool counted = false;          ///< Low latency: its counts are in.
    // The call in progress. Low latency: rows may come before their counts, below zero until then.
    std::int32_t parts_missing = 0;        ///< Packets of its rows not yet placed,
    std::int32_t entry_parts_missing = 0;  ///< and not yet forwarded.
    std::uint32_t entry_row = 0;           ///< Combine: row being gathered for it,
    std::uint32_t entry_part = 0;          ///< and part of it.
    std::uint32_t partials_open = 0;       ///< Parts being gathered or not yet acknowledged.
    std::uint32_t partials_done = 0;       ///< Parts acknowledged.
    /// Combine: parts of its rows that the node's device i has still to ask for.
    std::array<std::uint32_t, regmap::max_ranks_per_node> pulls_left{};
    /// Of its rows here, those that came whole by way of the node's device i.
    std::array<std::uint32_t, regmap::max_ranks_per_node> rows_by_entry{};
    PeerCounts incoming;
    std::uint32_t busiest_rows = 0;   ///< Rows over the busier of its links, to or from the planes.
    std::uint32_t contributions = 0;  ///< Rows that it receives, each of which it gives to a combine.
};

/// A row at its entry device: whom it was forwarded to, and where it lies there. Means something when it has
/// come in the dispatch that made the routing in force.
struct EntryRow {
    std::uint32_t dispatch = 0;  ///< Number of the dispatch it came in, among all of the device.
    std::uint32_t token = 0;
    std::uint8_t targets = 0;
    std::uint8_t choice_count = 0;  ///< Low latency: in EpHandle::entry_choices.
    std::array<std::uint32_t, regmap::max_ranks_per_node> index{};
};

enum class HandleState : std::uint8_t {
    free,         ///< No routing.
    loading,      ///< Dispatch: reading top-k lists.
    counting,     ///< Dispatch: waiting for the counts of all ranks.
    dispatching,  ///< Rows travel.
    dispatched,   ///< Routing is kept for combine and for cached dispatches.
    combining,
    ending,  ///< Over, but the device still reads the call's memory: the completion waits for that.
};

/// A combine that has looked so often for those it waits for tells all ranks that it is there.
constexpr std::uint8_t asked_enough = 2;

struct EpHandle {
    HandleState state = HandleState::free;
    bool routed = false;             ///< The tables hold a complete routing.
    CallKind kind = CallKind::none;  ///< Of the latest call.
    std::uint8_t aborted = 0;        ///< Bit i: a peer gave up call operation + 1 + i already.
    regmap::Status abort_status = regmap::Status::ok;    ///< What this rank's aborts say,
    RankMask abort_ranks{};                              ///< whom they name,
    regmap::Status aborted_status = regmap::Status::ok;  ///< what those of the peers say that are ahead,
    RankMask blamed_ranks{};                             ///< and whom those of any peer name.
    RankMask lacking_ranks{};             ///< Combine: whose contributions other nodes' rows lack.
    RankMask joined_ranks{};              ///< Combine: who has said that it is over there.
    std::uint8_t asked = 0;               ///< Combine: times that it looked for those it waits for.
    bool disturbed = false;               ///< A peer ended the call without all it should have had.
    bool rows_lost = false;               ///< Rows of the dispatch had to go by way of a rank that failed.
    std::uint16_t operation = 0;          ///< Number of the latest call.
    std::uint16_t routing_operation = 0;  ///< Number of the dispatch that made the tables.
    std::uint16_t request_index = 0;
    regmap::EpRequest request{};
    std::uint64_t limit_ns = 0;     ///< The call's time is over,
    std::uint64_t deadline_ns = 0;  ///< and, in a hurry, its patience.
    std::uint64_t left_before = 0;  ///< In a hurry: what the call waited for when its patience began.
    bool in_a_hurry = false;        ///< Ranks have failed, or peers ended the call early.
    regmap::Status end_status = regmap::Status::ok;  ///< ending: what the completion will say,
    regmap::EpResult result{};                       ///< and the result,
    bool result_counts = false;                      ///< followed by the counts of a dispatch.
    bool tables_busy = false;  ///< ending: messages with the transport still read its tables.

    // Source.
    std::span<TokenRows> tokens;
    std::span<RowInfo> rows;
    std::span<std::uint32_t> indices;
    std::span<std::int16_t> experts;  ///< [max_tokens, topk]
    std::span<float> weights;
    std::span<std::uint16_t> slots;  ///< Low latency: [max_tokens, topk] number of the row at its expert.
    std::span<Destination> destination;
    std::span<std::uint32_t> expert_rows;  ///< [experts] choices of this rank's tokens.
    std::uint32_t token_count = 0;
    std::uint32_t row_count = 0;
    std::uint32_t rows_away = 0;  ///< Of them, those to other nodes.
    std::uint32_t index_count = 0;
    std::span<NodeRows> rows_to;        ///< By node.
    std::uint32_t pieces_in_order = 0;  ///< Of the top-k lists: all before this one have been read,
    std::uint32_t tokens_routed = 0;    ///< so that so many tokens have rows,
    std::uint32_t rows_entered = 0;     ///< and so many rows an entry.
    bool rows_known = false;            ///< All tokens of the call are routed.
    std::uint32_t fetches_left = 0;
    bool sends_weights = false;             ///< Combine: credits carry this rank's weights.
    std::uint8_t biases = 0;                ///< Combine: rows that begin a token's sum,
    std::uint8_t bias_room = 0;             ///< and what those of a part take, see bias_room().
    std::uint32_t rows_done = 0;            ///< Rows acknowledged, multicast, or given up.
    std::uint32_t rows_unacknowledged = 0;  ///< Rows to other nodes not yet acknowledged.
    std::uint32_t local_in_flight = 0;      ///< Own-node rows being multicast,
    std::uint32_t local_left = 0;           ///< and all whose copies have not left yet.
    regmap::Status load_status = regmap::Status::ok;
    std::uint32_t controls_left = 0;  ///< Messages counts and ready of the call not yet acknowledged.
    std::uint32_t busiest_rows = 0;   ///< Rows over the busiest link of the group, of the routing in force,
    std::uint32_t most_contributions = 0;  ///< and of the rank that receives most.
    EpPace pace;                           ///< Of the call in progress,
    std::uint32_t rows_released = 0;       ///< dispatch: rows that may go.
    std::uint32_t table_messages = 0;      ///< Of rows and counts, with the transport: they read tables.

    // Receiver.
    std::span<PeerState> peer;
    std::span<std::uint32_t> peer_expert_rows;      ///< [ranks, experts / ranks], of the routing in force
    std::span<std::uint32_t> incoming_expert_rows;  ///< and as PeerCounts says.
    std::uint32_t received_rows = 0;
    std::int64_t parts_left = 0;
    std::span<std::uint8_t> parts_placed;  ///< Packets in place, of each slot of the outputs.
    std::uint32_t missing_rows = 0;

    // Entry.
    std::span<EntryRow> entry_rows;
    std::span<Choice> entry_choices;    ///< Low latency: [entry_rows, row_choices]
    std::uint32_t dispatch_number = 0;  ///< Of the routing in force, among all dispatches of the device.
    std::int64_t entry_parts_left = 0;  ///< Packets to be forwarded yet.

    // Combine.
    std::span<std::uint32_t> token_sums;  ///< [max_tokens, parts] while a token's sums are open.
    std::span<BufferId> early_rows;       ///< See early_row().
    std::uint32_t next_token = 0;         ///< Next to be admitted: its rows may come then.
    std::uint32_t next_open = 0;          ///< Next whose sums will be opened, not beyond next_token.
    std::uint32_t tokens_left = 0;
    std::uint64_t pulls_left = 0;  ///< Parts of this rank's outputs not yet asked for.
    std::array<std::uint32_t, regmap::max_ranks_per_node> pulls_by_entry{};  ///< The same by entry.
    std::uint32_t pulls_leaving = 0;  ///< Entries whose last contribution has not left yet,
    std::array<std::uint32_t, regmap::max_ranks_per_node> leaving_tag{};  ///< its tag,
    std::array<bool, regmap::max_ranks_per_node> is_leaving{};            ///< by entry.
    std::uint64_t partials_left = 0;       ///< Parts for sources that have yet to leave,
    std::uint32_t partials_ahead = 0;      ///< and those that may be open to one of them at once.
    std::span<std::uint16_t> gather_ring;  ///< Ranks whose rows may be gathered now, in turn.
    std::uint32_t gather_head = 0;
    std::uint32_t gather_count = 0;

    std::uint32_t messages_in_flight = 0;  ///< All that the transport has: they name this handle.
};

/// Rows in host memory: codes [rows, data_bytes] in one place, scales [rows, scale_bytes] in another.
struct RowLayout {
    regmap::RowFormat format = regmap::RowFormat::bf16;
    std::uint32_t data_bytes = 0;
    std::uint32_t scale_bytes = 0;
};

struct EpGroup {
    bool active = false;
    std::uint8_t number = 0;
    regmap::GroupParameters parameters{};
    std::uint32_t queue = 0;
    std::uint32_t nodes = 0;
    std::uint32_t node = 0;
    std::uint32_t local = 0;
    std::uint32_t hash = 0;           ///< Of what all ranks must agree on.
    std::uint32_t data_bytes = 0;     ///< Codes of a dispatched row,
    std::uint32_t scale_bytes = 0;    ///< its scales,
    std::uint32_t row_bytes = 0;      ///< both,
    std::uint32_t row_parts = 0;      ///< in packets.
    RowLayout x;                      ///< Input of a dispatch: what BF16 it is to encode, or the same rows.
    RowLayout outputs;                ///< Input of a combine.
    std::uint32_t output_bytes = 0;   ///< A combined row,
    std::uint32_t part_elements = 0;  ///< its parts,
    std::uint32_t parts = 0;          ///< and their number.
    std::uint32_t row_choices = 0;    ///< Choices that a row can have: those of a token in one node.
    std::uint32_t quarter_elements = 0;  ///< Of an accumulator: what room is counted in.
    std::uint32_t token_limit = 0;       ///< Contributions that may wait for tokens,
    std::uint32_t entry_limit = 0;       ///< those that may wait for rows,
    std::uint32_t partial_limit = 0;     ///< and parts owed: their shares of packet memory.
    std::span<std::uint32_t> qpn;        ///< [ranks]; 0 for the own node.
    std::span<EpHandle> handles;
    RankMask failed{};  ///< Ranks that are unreachable.

    [[nodiscard]] bool has_failed(std::uint32_t rank) const { return contains(failed, rank); }
    [[nodiscard]] bool is_local(std::uint32_t rank) const { return rank / parameters.ranks_per_node == node; }
    [[nodiscard]] bool is_low_latency() const { return parameters.mode == regmap::EpMode::low_latency; }
    [[nodiscard]] std::uint32_t own_experts() const { return parameters.experts / parameters.ranks; }
    /// Contributions that a row may have at its entry.
    [[nodiscard]] std::uint32_t row_contributions() const {
        return is_low_latency() ? row_choices : parameters.ranks_per_node;
    }
    [[nodiscard]] std::uint32_t rank_of_expert(std::uint32_t expert) const {
        return expert / (parameters.experts / parameters.ranks);
    }
    [[nodiscard]] std::uint32_t rank_at(std::uint32_t node_index, std::uint32_t local_index) const {
        return node_index * parameters.ranks_per_node + local_index;
    }
};

/// Low latency: number of a row among those of the outputs, [experts / ranks, ranks, max_tokens].
inline std::uint32_t expert_slot(const EpGroup& group, std::uint32_t source, std::uint32_t local_expert,
                                 std::uint32_t position) {
    return (local_expert * group.parameters.ranks + source) * group.parameters.max_tokens + position;
}

/// Has `rank` joined the call in progress, or gone?
inline bool is_ready(const EpGroup& group, const EpHandle& handle, std::uint32_t rank) {
    const PeerState& peer = handle.peer[rank];
    return group.has_failed(rank) ||
           (peer.ready_valid && !operation_before(peer.ready_operation, handle.operation));
}

/// Low latency: slots of the outputs, [experts / ranks, ranks, max_tokens].
inline std::uint32_t expert_slots(const EpGroup& group) {
    return group.parameters.experts * group.parameters.max_tokens;
}

/// Slots of the outputs that hold rows of the routing in force.
inline std::uint32_t output_slots(const EpGroup& group, const EpHandle& handle) {
    return group.is_low_latency() ? expert_slots(group) : handle.received_rows;
}

/// Low latency: the choices of a row at its entry.
inline std::span<Choice> choices_at(const EpGroup& group, const EpHandle& handle, std::uint32_t entry_row) {
    return handle.entry_choices.subspan(std::size_t{entry_row} * group.row_choices, group.row_choices);
}

/// no_index: no rank of the group.
inline std::uint32_t rank_of_device(const EpGroup& group, std::uint32_t device) {
    const std::uint32_t rank = device - group.parameters.first_device;
    return rank < group.parameters.ranks ? rank : no_index;
}

/// Ranks of other nodes only: the own node's do not send packets.
inline std::uint32_t rank_of_sender(const EpGroup& group, const Packet& packet) {
    const std::uint32_t rank = rank_of_device(group, packet.source_device);
    return rank != no_index && !group.is_local(rank) ? rank : no_index;
}

/// Tag of an EP message: what it is and where its tables are.
enum class EpMessageKind : std::uint8_t { row, control, partial };
struct EpTag {
    EpMessageKind kind = EpMessageKind::row;
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint16_t operation = 0;
    std::uint32_t index = 0;  ///< row: RowInfo; control: rank << 8 | kind (rank < 2^16); partial: slot.

    [[nodiscard]] constexpr std::uint64_t pack() const {
        return static_cast<std::uint64_t>(kind) << 60 | static_cast<std::uint64_t>(group) << 54 |
               static_cast<std::uint64_t>(handle) << 48 | static_cast<std::uint64_t>(operation) << 32 | index;
    }
    [[nodiscard]] static constexpr EpTag unpack(std::uint64_t tag) {
        return {static_cast<EpMessageKind>(tag >> 60), static_cast<std::uint8_t>((tag >> 54) & 0x3f),
                static_cast<std::uint8_t>((tag >> 48) & 0x3f), static_cast<std::uint16_t>(tag >> 32),
                static_cast<std::uint32_t>(tag)};
    }
};

/// A part that the entry device owes a source, from the gathering to the acknowledgement. It holds the buffer
/// in between.
struct PartialSlot {
    BufferId buffer = 0;
    std::uint32_t next_free = no_index;
    std::uint32_t token = 0;
    std::uint16_t source = 0;
    std::uint16_t part = 0;
    std::uint8_t missing = 0;
};

/// Tokens whose rows may come before their sums are open.
inline constexpr std::uint32_t early_tokens = 32;

/// Where part `part` of the i-th row of such a token waits; 0: it has not come.
inline BufferId& early_row(const EpGroup& group, EpHandle& handle, std::uint32_t token, std::uint32_t i,
                           std::uint32_t part) {
    const std::uint32_t rows = std::min(group.parameters.topk, group.nodes);
    return handle.early_rows[(token % early_tokens * rows + i) * group.parts + part];
}

/// What an accumulator of the reduce engine is used for.
enum class AccumulatorUse : std::uint8_t {
    free,
    token,  ///< A part of a token at its source.
    local,  ///< A part of the own node's share of a token at its source.
    entry,  ///< A part of the node's share of another node's token.
};

struct AccumulatorJob {
    AccumulatorUse use = AccumulatorUse::free;
    std::uint8_t group = 0;
    std::uint8_t handle = 0;
    std::uint8_t targets = 0;        ///< local, entry: who contributes, position by position.
    std::uint8_t missing = 0;        ///< Those of them that did not contribute.
    std::uint8_t position = 0;       ///< local: of the node's row among the token's rows.
    std::uint8_t contributions = 0;  ///< That are added up.
    std::uint8_t round = 0;          ///< Of the accumulator, see SumName. The pool's.
    std::uint16_t room = 0;          ///< Quarters of an accumulator.
    std::uint16_t source = 0;        ///< entry: rank the row returns to.
    std::uint16_t part = 0;
    std::uint32_t token = 0;
    std::uint32_t slot = no_index;  ///< entry: of PartialPool. free: the accumulator that is free next.
    std::uint64_t locals = 0;       ///< local, entry: four bits a position, see local_at().
};
static_assert(sizeof(AccumulatorJob) == 32);

}  // namespace plait::firmware
