// What the device writes into host memory in an EP scenario, checked as it arrives and when a call ends.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <plait/requests.hpp>
#include <plait/sim/app/row_reference.hpp>
#include <utility>

#include "ep_memory.hpp"

namespace plait::sim {
namespace {

constexpr size_t max_part = regmap::max_mtu_bytes;
constexpr size_t max_sum = 4096;  // elements of a part of a combined row

}  // namespace

// Whether a row dies with its source depends on what this rank's device knows by then: any of the dead may
// have been left out.
template <class Matches>
bool EpMemory::matches_row(uint64_t slot, Matches&& matches) const {
    const auto& rows = expected_.rows;
    if (slot < rows.size() && rows[slot].rank != RowSource::nobody && matches(rows[slot])) return true;
    const RankMask dead = dead_ranks();
    std::vector<RankMask> left_out{{}};
    for (uint32_t rank = 0; rank < batch_.shape.ranks; ++rank) {
        for (size_t i = left_out.size(); dead[rank] && i-- > 0;) {
            left_out.push_back(left_out[i]);
            const uint64_t index = index_of(expected_, slot, left_out.back().set(rank));
            if (index < rows.size() && rows[index].rank != RowSource::nobody && matches(rows[index]))
                return true;
        }
    }
    return false;
}

// A dead device takes its own contribution along, and what it was the entry of. Then the sum is one over some
// of the ranks of its node, or none, and all of the others.
bool EpMemory::lacks_only_what_died(uint32_t token, std::span<const uint16_t> part, uint32_t offset) const {
    const RankMask dead = dead_ranks();
    const auto terms = batch_.combine.terms_of(rank_, token);
    std::vector<size_t> losable;
    for (size_t i = 0; i < terms.size(); ++i) {
        const uint32_t node = terms[i].node;
        for (uint32_t rank = 0; rank < batch_.shape.ranks; ++rank) {
            if (!dead[rank] || batch_.shape.node_of(rank) != node) continue;
            losable.push_back(i);
            break;
        }
    }
    std::array<uint16_t, max_sum> wanted;
    for (uint32_t lost = 1; lost < 1U << losable.size(); ++lost) {
        auto left = terms;
        for (size_t i = losable.size(); i-- > 0;)
            if ((lost >> i & 1) != 0) left.erase(left.begin() + static_cast<std::ptrdiff_t>(losable[i]));
        constexpr size_t enough = Activations::block;  // to tell most sums from others
        for (const size_t count : {std::min(enough, part.size()), part.size()}) {
            batch_.combine.fill_sum(rank_, token, left, std::span(wanted).first(count), offset);
            if (!std::equal(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(count),
                            part.begin()))
                break;
            if (count == part.size()) return true;
        }
    }
    return false;
}

// Who is named is to blame, and where somebody has to be named somebody is.
void EpMemory::check_names(const char* call, const EpCompletion& completion) const {
    const RankMask wrong = completion.failed_ranks & ~world_.culprits();
    const bool must_name = completion.status == Status::timeout || completion.status == Status::rank_failed;
    for (uint32_t rank = 0; rank < batch_.shape.ranks; ++rank) {
        if (wrong[rank]) world_.error(fmt::format("rank {}: {} blames rank {}", rank_, call, rank));
    }
    if (must_name && completion.failed_ranks.none())
        world_.error(fmt::format("rank {}: {} blames nobody", rank_, call));
}

void EpMemory::report_end(const char* call, const EpCompletion& completion, uint64_t expected_rows) const {
    check_names(call, completion);
    std::string line = fmt::format("rank {}: {} ended as {} with {} rows, expected {}", rank_, call,
                                   regmap::name(completion.status), completion.received_rows, expected_rows);
    if (completion.failed_ranks.any())
        line += fmt::format(", {} of them missing; failed ranks:", completion.missing_rows);
    for (uint32_t rank = 0; rank < batch_.shape.ranks; ++rank) {
        if (completion.failed_ranks[rank]) line += fmt::format(" {}", rank);
    }
    world_.error(std::move(line));
}

void EpMemory::count(std::vector<uint32_t>& arrived, uint64_t row, size_t bytes, bool right,
                     const char* what) {
    if (row >= arrived.size())
        return world_.error(fmt::format("rank {}: {} row {} does not exist", rank_, what, row));
    arrived[row] += static_cast<uint32_t>(bytes);
    if (!right) world_.error(fmt::format("rank {}: wrong bytes in {} row {}", rank_, what, row));
    world_.placed(bytes);
}

void EpMemory::check_x(uint64_t offset, std::span<const std::byte> in) {
    const uint32_t row_bytes = batch_.dispatched.code_bytes();
    check_received(offset, in, row_bytes, [&](const RowName& name, std::span<std::byte> wanted) {
        batch_.dispatched.fill_codes(name, wanted, static_cast<uint32_t>(offset % row_bytes));
    });
}

void EpMemory::check_scales(uint64_t offset, std::span<const std::byte> in) {
    const uint32_t row_bytes = batch_.dispatched.scale_bytes();
    check_received(offset, in, row_bytes, [&](const RowName& name, std::span<std::byte> wanted) {
        batch_.dispatched.fill_scales(name, wanted, static_cast<uint32_t>(offset % row_bytes));
    });
}

template <class Fill>
void EpMemory::check_received(uint64_t offset, std::span<const std::byte> in, uint32_t row_bytes,
                              Fill&& fill) {
    prefetch(in.data(), in.size());
    const uint64_t slot = offset / row_bytes;
    __builtin_prefetch(row_bytes_arrived_.data() + slot);
    const bool right = in.size() <= max_part && matches_row(slot, [&](const RowSource& row) {
                           alignas(64) std::array<std::byte, max_part> wanted;
                           const std::span part = std::span(wanted).first(in.size());
                           fill(batch_.activations.activation(row.rank, row.token), part);
                           return std::memcmp(part.data(), in.data(), in.size()) == 0;
                       });
    count(row_bytes_arrived_, slot, in.size(), right, "received");
}

void EpMemory::check_combined(uint64_t offset, std::span<const std::byte> in) {
    prefetch(in.data(), in.size());
    const uint64_t token = offset / combined_bytes_;
    const auto number = static_cast<uint32_t>(token);
    __builtin_prefetch(combined_bytes_arrived_.data() + token);
    bool right = token < tokens_ && in.size() / 2 <= max_sum;
    if (right) {
        alignas(64) std::array<uint16_t, max_sum> wanted;
        const std::span part = std::span(wanted).first(in.size() / 2);
        const auto first = static_cast<uint32_t>(offset % combined_bytes_ / 2);
        batch_.combine.fill_row(rank_, number, part, first);
        right = std::memcmp(part.data(), in.data(), in.size()) == 0;
        if (right) {
            measure_error(number, part, first);
        } else if (dead_ranks().any()) {
            std::array<uint16_t, max_sum> actual;
            std::memcpy(actual.data(), in.data(), in.size());
            right = lacks_only_what_died(number, std::span(actual).first(part.size()), first);
        }
    }
    count(combined_bytes_arrived_, token, in.size(), right, "combined");
}

void EpMemory::measure_error(uint32_t token, std::span<const uint16_t> part, uint32_t offset) {
    constexpr uint32_t measured_tokens = 16;  // one of so many
    if (token % measured_tokens != 0) return;
    std::array<double, max_sum> exact;
    batch_.combine.fill_exact(rank_, token, std::span(exact).first(part.size()), offset);
    for (size_t i = 0; i < part.size(); ++i) {
        const double error = static_cast<double>(bf16_to_float(part[i])) - exact[i];
        error_energy_ += error * error;
        exact_energy_ += exact[i] * exact[i];
    }
}

void EpMemory::take_error(PhaseOutcome& phase) {
    phase.error_energy += std::exchange(error_energy_, 0);
    phase.exact_energy += std::exchange(exact_energy_, 0);
}

uint64_t EpMemory::source_of(uint32_t slot) const {
    uint64_t source = 0;
    std::memcpy(&source, recv_source_.bytes().data() + slot * sizeof(source), sizeof(source));
    return source;
}

bool EpMemory::check_metadata(uint32_t slot, const RowSource& row) const {
    const uint32_t topk = batch_.routing.topk;
    if (row.rank == RowSource::nobody) return true;
    const auto value = [](std::span<const std::byte> bytes, size_t i, auto& out) {
        std::memcpy(&out, bytes.data() + i * sizeof(out), sizeof(out));
    };
    if (source_of(slot) != (uint64_t{row.rank} << 32 | row.token)) return false;
    if (is_expert_major_) return true;
    for (uint32_t k = 0; k < topk; ++k) {
        int64_t expert = 0;
        float weight = 0;
        value(recv_topk_idx_.bytes(), size_t{slot} * topk + k, expert);
        value(recv_topk_weights_.bytes(), size_t{slot} * topk + k, weight);
        const int64_t local =
            local_expert(batch_.shape, rank_, batch_.routing.experts_of(row.rank, row.token)[k]);
        const float wanted = local < 0 ? 0.0F : batch_.routing.weights_of(row.rank, row.token)[k];
        if (expert != local || weight != wanted) return false;
    }
    return true;
}

// A slot holds its row, all of it and once, or after a failure says that it holds none.
void EpMemory::check_slots(const EpCompletion& completion) {
    const bool is_real = world_.scenario.payload == PayloadMode::real;
    const uint32_t row_bytes = batch_.dispatched.code_bytes() + batch_.dispatched.scale_bytes();
    uint32_t gaps = 0;
    const RankMask dead = dead_ranks();
    const auto slots =
        is_expert_major_ ? static_cast<uint32_t>(expected_.rows.size()) : completion.received_rows;
    for (uint32_t slot = 0; slot < slots; ++slot) {
        if (completion.status == Status::rank_failed && source_of(slot) == ~uint64_t{0}) {
            ++gaps;
            continue;
        }
        const RowSource row = inputs_.row_at(slot);
        const bool is_used = row.rank != RowSource::nobody;
        // In low latency nobody knows what a source that died would have sent.
        if (is_expert_major_ && is_used && dead[row.rank]) continue;
        const bool right = (!is_real || row_bytes_arrived_[slot] == (is_used ? row_bytes : 0)) &&
                           (is_used || is_expert_major_) && check_metadata(slot, row);
        if (!right)
            return world_.error(fmt::format(
                "rank {}: received row {} is incomplete, came twice, or its lists are wrong", rank_, slot));
    }
    if (gaps != completion.missing_rows)
        world_.error(fmt::format("rank {}: {} received rows are marked as missing, {} are said to be", rank_,
                                 gaps, completion.missing_rows));
}

bool EpMemory::check_dispatch(const EpCompletion& completion) {
    const uint64_t errors_before = world_.errors();
    const bool right = completion.status == Status::ok &&
                       completion.received_rows == expected_.received_rows &&
                       completion.rows_per_local_expert == expected_.rows_per_local_expert &&
                       completion.rows_per_source == expected_.rows_per_source &&
                       completion.rows_per_source_and_expert == expected_.rows_per_source_and_expert;
    if (!right) report_end("dispatch", completion, expected_.received_rows);
    RankMask absent;
    for (uint32_t rank = 0; rank < completion.rows_per_source.size(); ++rank)
        absent[rank] = completion.failed_ranks[rank] && completion.rows_per_source[rank] == 0;
    inputs_.leave_out(absent);
    if (completion.status == Status::ok || completion.status == Status::rank_failed) check_slots(completion);
    std::fill(row_bytes_arrived_.begin(), row_bytes_arrived_.end(), 0);
    // Places that nothing comes for are left as they are: no call may find another one's marks there.
    if (is_expert_major_) std::ranges::fill(recv_source_.bytes(), std::byte{0});
    return right && world_.errors() == errors_before;
}

bool EpMemory::check_combine(const EpCompletion& completion) {
    bool right = completion.status == Status::ok && completion.received_rows == tokens_;
    if (!right) report_end("combine", completion, tokens_);
    const bool is_real = world_.scenario.payload == PayloadMode::real;
    const auto whole = static_cast<uint32_t>(
        std::count(combined_bytes_arrived_.begin(), combined_bytes_arrived_.end(), combined_bytes_));
    const bool any_twice = std::any_of(combined_bytes_arrived_.begin(), combined_bytes_arrived_.end(),
                                       [&](uint32_t bytes) { return bytes > combined_bytes_; });
    if (is_real && (whole < completion.received_rows || any_twice)) {
        world_.error(fmt::format("rank {}: a combined row is incomplete or came twice", rank_));
        right = false;
    }
    std::fill(combined_bytes_arrived_.begin(), combined_bytes_arrived_.end(), 0);
    return right;
}

}  // namespace plait::sim
