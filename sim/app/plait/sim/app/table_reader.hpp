// Reads typed values out of a TOML table and refuses everything it does not know.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

/// One table of a file and, before it, the same table of a variant. Every getter leaves its target alone when
/// the key is absent, and throws InputError when the value is not as expected. `finish()` then refuses the
/// keys nobody asked for. The tables are borrowed.
class TableReader {
  public:
    TableReader(std::string file, std::string path, const toml::table* base,
                const toml::table* overlay = nullptr)
        : file_(std::move(file)), path_(std::move(path)), base_(base), overlay_(overlay) {}

    bool has(std::string_view key);

    template <std::unsigned_integral Value>
    void integer(std::string_view key, Value& value, uint64_t lowest, uint64_t highest) {
        if (const auto read = read_integer(key, lowest, highest)) value = static_cast<Value>(*read);
    }
    void power_of_two(std::string_view key, uint32_t& value, uint32_t lowest, uint32_t highest);
    void number(std::string_view key, double& value, double lowest, double highest);
    void boolean(std::string_view key, bool& value);
    void text(std::string_view key, std::string& value);
    void integers(std::string_view key, std::vector<uint32_t>& values, uint64_t highest);

    template <class Enum>
    void choice(std::string_view key, Enum& value,
                std::initializer_list<std::pair<std::string_view, Enum>> choices) {
        const auto read = read_text(key, one_of(choices));
        if (!read) return;
        for (const auto& [name, candidate] : choices) {
            if (name == *read) {
                value = candidate;
                return;
            }
        }
        refuse(key, one_of(choices));
    }

    /// A list of names of `choices`, at least one; `set` has a bit each.
    void choices(std::string_view key, uint32_t& set, std::span<const std::string_view> names);

    /// A sub-table; empty when absent.
    TableReader table(std::string_view key);
    /// An array of tables; those of the variant replace those of the file.
    std::vector<TableReader> tables(std::string_view key);

    /// Refuses the value of `key` (or its absence): "file:line: path.key: found ..., expected ...".
    [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;
    /// Refuses what `key` has led to, in free words.
    [[noreturn]] void fail(std::string_view key, const std::string& why) const;
    /// Throws when a key was not asked for; names the nearest one that would have been right.
    void finish() const;

  private:
    template <class Enum>
    static std::string one_of(std::initializer_list<std::pair<std::string_view, Enum>> choices) {
        std::string list = "one of";
        for (const auto& [name, candidate] : choices)
            list += (list.size() > 6 ? ", \"" : " \"") + std::string(name) + '"';
        return list;
    }

    const toml::node* find(std::string_view key) const;
    std::optional<uint64_t> read_integer(std::string_view key, uint64_t lowest, uint64_t highest);
    std::optional<std::string> read_text(std::string_view key, const std::string& expected);
    std::string where(std::string_view key) const;
    void refuse_unknown(const toml::table& table) const;

    std::string file_;
    std::string path_;
    const toml::table* base_;
    const toml::table* overlay_;
    std::set<std::string, std::less<>> known_;
};

/// The candidate that takes the fewest edits to reach from `word`, if it is near at all; else empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace plait::sim
