#include <plait/sim/riscv/profile.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace plait::sim {
namespace {

constexpr uint32_t link_register = 1;
constexpr uint32_t other_link_register = 5;

bool is_link(uint32_t number) { return number == link_register || number == other_link_register; }

}  // namespace

Profile::Profile(const FirmwareImage& image) : image_(image), nodes_(1) {
    const auto functions = image.functions();
    function_at_.assign(image.instructions_before().size(), static_cast<uint32_t>(functions.size()));
    for (size_t i = 0; i < functions.size(); ++i) {
        const uint64_t first = (functions[i].address - image.code().address) / 2;
        const uint64_t end = std::min<uint64_t>(first + functions[i].size / 2, function_at_.size());
        for (uint64_t half = first; half < end; ++half) function_at_[half] = static_cast<uint32_t>(i);
    }
}

uint32_t Profile::function_of(uint64_t address) const {
    const uint64_t half = (address - image_.code().address) / 2;
    return half < function_at_.size() ? function_at_[half] : static_cast<uint32_t>(image_.functions().size());
}

// JAL and JALR that keep the return address are calls, JALR to a return address is the way back; likewise
// their short forms.
Profile::Jump Profile::last_jump(uint64_t address, uint32_t bytes) const {
    const auto& code = image_.code().bytes;
    const auto& before = image_.instructions_before();
    uint64_t half = (address - image_.code().address + bytes) / 2 - 1;
    if (half + 1 >= before.size()) return Jump::other;
    if (before[half + 1] == before[half]) --half;  // the second half of a long one
    const uint32_t low = code[2 * half] | uint32_t{code[2 * half + 1]} << 8;
    if ((low & 3U) == 3) {
        const uint32_t opcode = low & 0x7fU;
        const uint32_t word = low | uint32_t{code[2 * half + 2]} << 16 | uint32_t{code[2 * half + 3]} << 24;
        const uint32_t kept = word >> 7 & 31U;
        if (opcode == 0x6f) return is_link(kept) ? Jump::call : Jump::other;
        if (opcode != 0x67) return Jump::other;
        if (is_link(kept)) return Jump::call;
        return kept == 0 && is_link(word >> 15 & 31U) ? Jump::leave : Jump::other;
    }
    const uint32_t source = low >> 7 & 31U;
    if ((low & 0xf07fU) == 0x9002U && source != 0) return Jump::call;       // c.jalr
    if ((low & 0xf07fU) == 0x8002U && is_link(source)) return Jump::leave;  // c.jr
    return Jump::other;
}

uint32_t Profile::child(uint32_t parent, uint32_t function) {
    const auto next = static_cast<uint32_t>(nodes_.size());
    const auto [found, is_new] = nodes_[parent].children.try_emplace(function, next);
    const uint32_t node = found->second;
    if (is_new) nodes_.push_back({function, parent, 0, 0, {}});
    return node;
}

void Profile::begin(const std::string& event) {
    const uint32_t number = events_.try_emplace(event, static_cast<uint32_t>(events_.size())).first->second;
    now_ = root_ = child(no_node, number);
    ++nodes_[root_].calls;
    before_ = Jump::call;
}

// Back to the caller; to the one further up where the call before was a jump.
void Profile::leave(uint32_t function) {
    for (uint32_t node = nodes_[now_].parent; node != no_node && node != root_; node = nodes_[node].parent) {
        if (nodes_[node].function != function) continue;
        now_ = node;
        return;
    }
    now_ = child(root_, function);
}

void Profile::block(uint64_t address, uint32_t bytes, uint64_t instructions) {
    const uint32_t function = function_of(address);
    if (before_ == Jump::call) {
        now_ = child(now_, function);
        ++nodes_[now_].calls;
    } else if (before_ == Jump::leave) {
        leave(function);
    } else if (nodes_[now_].function != function || now_ == root_) {  // a jump instead of a call
        now_ = child(now_ == root_ ? root_ : nodes_[now_].parent, function);
        ++nodes_[now_].calls;
    }
    nodes_[now_].self += instructions;
    before_ = last_jump(address, bytes);
}

std::vector<Profile::Row> Profile::functions() const {
    std::vector<Row> rows(image_.functions().size() + 1);
    for (size_t i = 0; i + 1 < rows.size(); ++i) rows[i].name = image_.functions()[i].name;
    rows.back().name = "outside functions";
    std::vector<bool> above(rows.size());
    for (const auto& [event, root] : nodes_[no_node].children)
        for (const auto& [function, node] : nodes_[root].children) add_totals(node, above, rows);
    std::erase_if(rows, [](const Row& row) { return row.total == 0; });
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.self > b.self; });
    return rows;
}

uint64_t Profile::add_totals(uint32_t node, std::vector<bool>& above, std::vector<Row>& rows) const {
    const Node& at = nodes_[node];
    const bool is_inner = above[at.function];
    above[at.function] = true;
    uint64_t total = at.self;
    for (const auto& [function, inner] : at.children) total += add_totals(inner, above, rows);
    above[at.function] = is_inner;
    Row& row = rows[at.function];
    row.calls += at.calls;
    row.self += at.self;
    if (!is_inner) row.total += total;
    return total;
}

std::vector<Profile::Row> Profile::events() const {
    std::vector<Row> rows;
    for (const auto& [name, number] : events_) {
        const uint32_t root = nodes_[no_node].children.at(number);
        std::vector<Row> functions(image_.functions().size() + 1);
        std::vector<bool> above(functions.size());
        Row row{name, nodes_[root].calls, 0, 0};
        for (const auto& [function, node] : nodes_[root].children)
            row.total += add_totals(node, above, functions);
        rows.push_back(std::move(row));
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.total > b.total; });
    return rows;
}

void Profile::fold(uint32_t node, const std::string& path, std::string& text) const {
    const Node& at = nodes_[node];
    const auto functions = image_.functions();
    const std::string name =
        at.function < functions.size() ? functions[at.function].name : "outside functions";
    const std::string here = path + ';' + name;
    if (at.self != 0) text += fmt::format("{} {}\n", here, at.self);
    for (const auto& [function, inner] : at.children) fold(inner, here, text);
}

std::string Profile::folded() const {
    std::string text;
    for (const auto& [name, number] : events_) {
        const uint32_t root = nodes_[no_node].children.at(number);
        for (const auto& [function, node] : nodes_[root].children) fold(node, name, text);
    }
    return text;
}

}  // namespace plait::sim
