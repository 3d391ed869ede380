#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery::program_text {

/// A word (letters, digits, `_ . + -`), a quoted string, a sign, or the end of the line.
struct Token {
  enum class Kind : std::uint8_t { word, quoted, sign, end };
  Kind kind = Kind::end;
  std::string_view text;  ///< as written, without quotes
  std::uint32_t column = 1;
};

/// A mistake in a line; caught per line, so that later lines are read too.
struct Mistake {
  std::uint32_t column;
  std::string code;
  std::string message;
  std::vector<std::string> details;
};

/// One line as tokens.  `#` begins a comment.  Throws Mistake.
[[nodiscard]] std::vector<Token> scan(std::string_view line);

/// Walks the tokens of one line.  Everything throws Mistake, never reads past the end.
class Line {
 public:
  explicit Line(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& peek() const { return tokens_[at_]; }
  [[nodiscard]] bool ended() const { return peek().kind == Token::Kind::end; }
  const Token& next();
  /// Takes the sign or word if it stands here.
  bool take(std::string_view text);
  void expect(std::string_view text);
  void expect_end();
  /// A word; `what` names it in the message.
  std::string_view word(std::string_view what);
  /// A bare or quoted name, escapes undone.
  std::string name(std::string_view what);
  std::uint64_t number(std::string_view what, std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());
  std::int64_t signed_number(std::string_view what, std::int64_t low, std::int64_t high);
  double real(std::string_view what);
  [[noreturn]] void fail(std::string code, std::string message, std::vector<std::string> details = {}) const;
  [[noreturn]] void fail_at(const Token& where, std::string code, std::string message,
                            std::vector<std::string> details = {}) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// What stands there, for messages: "'x'" or "the end of the line".
[[nodiscard]] std::string shown(const Token& token);

}  // namespace orrery::program_text
