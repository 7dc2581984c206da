#pragma once
// Result of a public function: a value, or a status with one clear line about it.

#include <plait/regmap.hpp>
#include <string>
#include <utility>
#include <variant>

namespace plait {

using regmap::Status;

/// Why something was not done: the status, and what, where and what was expected.
struct Error {
    Status status = Status::invalid_parameter;
    std::string message;
};

/// Either a value or an Error. `value()` may be called only when `ok()`.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value)
        : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
    Result(Error error)
        : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return content_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() { return std::get<0>(content_); }
    const T& value() const { return std::get<0>(content_); }
    [[nodiscard]] const Error& error() const { return std::get<1>(content_); }
    [[nodiscard]] Status status() const { return ok() ? Status::ok : error().status; }

  private:
    std::variant<T, Error> content_;
};

/// Result of a function that gives nothing back.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return ok_; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error& error() const { return error_; }
    [[nodiscard]] Status status() const { return ok_ ? Status::ok : error_.status; }

  private:
    Error error_;
    bool ok_ = true;
};

}  // namespace plait
