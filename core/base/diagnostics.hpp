#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// A place in a text file. Line and column count from 1; 0 means unknown.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// Where the values of one spec came from: the file, its text, and the
/// position of every key ("model.heads").  Origins do not take part in
/// equality: two equal models read from different files are equal.
struct Origin {
  std::string file;                           ///< empty for specs built in memory
  std::string text;                           ///< the file's text, to show the line
  std::map<std::string, Position> positions;  ///< dotted key -> position of its value

  [[nodiscard]] Position position(const std::string& key) const;
  /// Line `line` of the text without its end, empty when out of range.
  [[nodiscard]] std::string_view line(std::uint32_t line) const;
  friend bool operator==(const Origin&, const Origin&) { return true; }
};

/// One mistake in what the user gave us.
struct Diagnostic {
  std::string file;  ///< empty: not in a file (a flag)
  Position position;
  std::string code;  ///< stable, documented: "model.heads"
  std::string message;
  std::vector<std::string> details;  ///< the numbers, and what would be right
  std::string source_line;           ///< the offending line as it is shown (see excerpt()), empty when unknown
  std::string caret_pad = {};        ///< what stands before the caret below it
  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

/// Collects the user's mistakes so that all of them are shown at once.
class Diagnostics {
 public:
  void add(Diagnostic d) { list_.push_back(std::move(d)); }
  /// A mistake at the value of `key` in `origin`.
  void error(const Origin& origin, const std::string& key, std::string code, std::string message,
             std::vector<std::string> details = {});
  /// A mistake at a position in `origin`.
  void error_at(const Origin& origin, Position where, std::string code, std::string message,
                std::vector<std::string> details = {});
  /// Takes over the mistakes of a file that the value of `key` names, and adds a detail that says who names it.
  /// Mistakes without a file are put at the key.
  void add_from(const Origin& origin, const std::string& key, const Diagnostics& found);
  /// A mistake that stands in no file (a flag or an argument).
  void error(std::string code, std::string message, std::vector<std::string> details = {});

  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  [[nodiscard]] const std::vector<Diagnostic>& list() const { return list_; }

 private:
  std::vector<Diagnostic> list_;
};

/// The form in which a person sees it:
///
///     plan.toml:9:3: error: tensor size does not divide heads [plan.tensor-heads]
///         9 | tensor = 7
///           |          ^
///       heads is 64, and 64 / 7 leaves 1.
[[nodiscard]] std::string render(const Diagnostic&);
[[nodiscard]] std::string render(const Diagnostics&);

/// The world failed: a file, a device, a peer.  Caught in cli/ (exit 3).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const std::string& values);
std::string join_values(std::initializer_list<std::string> values);
template <class T>
std::string value_text(const T& v) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(v));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(v);
  } else {
    return std::string(v);
  }
}
template <class... T>
std::string values_text(const T&... v) {
  return join_values({value_text(v)...});
}
}  // namespace detail
}  // namespace orrery

/// Our own bug: prints the condition and the values, then aborts.  Stays on in
/// release builds; no user input may reach it.
#define ORRERY_ASSERT(condition, ...)                                               \
  ((condition) ? static_cast<void>(0)                                               \
               : ::orrery::detail::assertion_failed(#condition, __FILE__, __LINE__, \
                                                    ::orrery::detail::values_text(__VA_ARGS__)))
