#include <plait/sim/app/table_reader.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

namespace plait::sim {
namespace {

std::string describe(const toml::node& node) {
    std::ostringstream type;
    type << node.type();
    if (node.is_table() || node.is_array()) return type.str();
    std::ostringstream value;
    node.visit([&](const auto& content) { value << content; });
    std::string shown = value.str();
    // TOML writes strings with their quotes; the message stays on one line whatever is in them.
    std::replace_if(
        shown.begin(), shown.end(), [](char letter) { return static_cast<unsigned char>(letter) < ' '; },
        ' ');
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    return fmt::format("{} {}", type.str(), shown);
}

size_t edit_distance(std::string_view from, std::string_view to) {
    std::vector<size_t> row(to.size() + 1);
    for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= from.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= to.size(); ++j) {
            const size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[to.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    std::string best;
    size_t best_distance = std::max<size_t>(2, word.size() / 2);
    for (const auto& candidate : candidates) {
        const size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

const toml::node* TableReader::find(std::string_view key) const {
    for (const auto* table : {overlay_, base_}) {
        if (table == nullptr) continue;
        if (const auto* node = table->get(key)) return node;
    }
    return nullptr;
}

bool TableReader::has(std::string_view key) {
    known_.emplace(key);
    return find(key) != nullptr;
}

std::string TableReader::where(std::string_view key) const {
    const auto* node = find(key);
    toml::source_index line = node != nullptr ? node->source().begin.line : 0;
    for (const auto* table : {overlay_, base_}) {
        if (line == 0 && table != nullptr) line = table->source().begin.line;
    }
    std::string place = file_;
    if (line != 0) place += fmt::format(":{}", line);
    place += ": " + path_;
    if (!path_.empty() && !key.empty()) place += '.';
    return place + std::string(key);
}

void TableReader::refuse(std::string_view key, const std::string& expected) const {
    const auto* node = find(key);
    throw InputError(fmt::format("{}: found {}, expected {}", where(key),
                                 node != nullptr ? describe(*node) : "nothing", expected));
}

void TableReader::fail(std::string_view key, const std::string& why) const {
    throw InputError(fmt::format("{}: {}", where(key), why));
}

std::optional<uint64_t> TableReader::read_integer(std::string_view key, uint64_t lowest, uint64_t highest) {
    if (!has(key)) return std::nullopt;
    const auto value = find(key)->value_exact<int64_t>();
    if (!value || *value < 0 || static_cast<uint64_t>(*value) < lowest ||
        static_cast<uint64_t>(*value) > highest) {
        refuse(key, fmt::format("an integer from {} to {}", lowest, highest));
    }
    return static_cast<uint64_t>(*value);
}

void TableReader::power_of_two(std::string_view key, uint32_t& value, uint32_t lowest, uint32_t highest) {
    const auto read = read_integer(key, 0, std::numeric_limits<int64_t>::max());
    if (!read) return;
    if (*read < lowest || *read > highest || (*read & (*read - 1)) != 0) {
        refuse(key, fmt::format("a power of two from {} to {}", lowest, highest));
    }
    value = static_cast<uint32_t>(*read);
}

void TableReader::number(std::string_view key, double& value, double lowest, double highest) {
    if (!has(key)) return;
    const auto* node = find(key);
    const auto read = node->is_number() ? node->value<double>() : std::nullopt;
    if (!read || !std::isfinite(*read) || *read < lowest || *read > highest) {
        refuse(key, fmt::format("a number from {} to {}", lowest, highest));
    }
    value = *read;
}

void TableReader::boolean(std::string_view key, bool& value) {
    if (!has(key)) return;
    const auto read = find(key)->value_exact<bool>();
    if (!read) refuse(key, "true or false");
    value = *read;
}

std::optional<std::string> TableReader::read_text(std::string_view key, const std::string& expected) {
    if (!has(key)) return std::nullopt;
    auto read = find(key)->value_exact<std::string>();
    if (!read) refuse(key, expected);
    return read;
}

void TableReader::text(std::string_view key, std::string& value) {
    if (auto read = read_text(key, "text")) value = std::move(*read);
}

void TableReader::integers(std::string_view key, std::vector<uint32_t>& values, uint64_t highest) {
    if (!has(key)) return;
    const auto expected = fmt::format("a list of integers from 0 to {}", highest);
    const auto* list = find(key)->as_array();
    if (list == nullptr) refuse(key, expected);
    values.clear();
    for (const auto& node : *list) {
        const auto value = node.value_exact<int64_t>();
        if (!value || *value < 0 || static_cast<uint64_t>(*value) > highest) {
            fail(key, fmt::format("found {} in the list, expected {}", describe(node), expected));
        }
        values.push_back(static_cast<uint32_t>(*value));
    }
}

void TableReader::choices(std::string_view key, uint32_t& set, std::span<const std::string_view> names) {
    if (!has(key)) return;
    const auto expected = fmt::format("a list of \"{}\"", fmt::join(names, "\", \""));
    const auto* list = find(key)->as_array();
    if (list == nullptr || list->empty()) refuse(key, expected);
    set = 0;
    for (const auto& node : *list) {
        const auto name = std::ranges::find(names, node.value_exact<std::string_view>().value_or(""));
        if (name == names.end())
            fail(key, fmt::format("found {} in the list, expected {}", describe(node), expected));
        set |= 1U << (name - names.begin());
    }
}

TableReader TableReader::table(std::string_view key) {
    known_.emplace(key);
    const toml::table* found[2] = {nullptr, nullptr};
    const toml::table* levels[2] = {base_, overlay_};
    for (size_t i = 0; i < 2; ++i) {
        const auto* node = levels[i] != nullptr ? levels[i]->get(key) : nullptr;
        if (node == nullptr) continue;
        found[i] = node->as_table();
        if (found[i] == nullptr) {
            TableReader(file_, path_, levels[i]).refuse(key, "a table");
        }
    }
    return {file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key), found[0], found[1]};
}

std::vector<TableReader> TableReader::tables(std::string_view key) {
    std::vector<TableReader> result;
    if (!has(key)) return result;
    const auto* list = find(key)->as_array();
    if (list == nullptr) refuse(key, "an array of tables");
    for (const auto& node : *list) {
        const auto* table = node.as_table();
        if (table == nullptr) refuse(key, "an array of tables");
        const auto name = fmt::format("{}[{}]", key, result.size());
        result.emplace_back(file_, path_.empty() ? name : fmt::format("{}.{}", path_, name), table);
    }
    return result;
}

void TableReader::refuse_unknown(const toml::table& table) const {
    for (const auto& [key, node] : table) {
        if (known_.contains(key.str())) continue;
        const std::vector<std::string> candidates(known_.begin(), known_.end());
        const auto meant = nearest(key.str(), candidates);
        std::string expected = meant.empty() ? "expected one of" : fmt::format("did you mean \"{}\"?", meant);
        if (meant.empty()) {
            for (const auto& name : candidates) expected += (name == candidates.front() ? " " : ", ") + name;
        }
        const TableReader level(file_, path_, &table);
        level.fail(key.str(), fmt::format("unknown key, {}", expected));
    }
}

void TableReader::finish() const {
    for (const auto* table : {overlay_, base_}) {
        if (table != nullptr) refuse_unknown(*table);
    }
}

}  // namespace plait::sim
