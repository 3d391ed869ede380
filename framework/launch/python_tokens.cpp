#include "framework/launch/python_tokens.hpp"

#include <algorithm>
#include <cctype>

#include "framework/launch/launch_value.hpp"

namespace orrery {

namespace {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Words of the text. A line ends where no bracket is open.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  std::vector<PythonToken> all() {
    std::vector<PythonToken> out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        step(), step();
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (c == '\n') {
        if (open_ == 0) out.push_back({Kind::line, "", place()});
        step();
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        step();
      } else {
        out.push_back(token(c));
      }
    }
    out.push_back({Kind::end, "", place()});
    return out;
  }

 private:
  using Kind = PythonToken::Kind;
  [[nodiscard]] Position place() const { return {line_, static_cast<std::uint32_t>(at_ - begin_ + 1)}; }
  void step() {
    if (text_[at_++] == '\n') {
      ++line_;
      begin_ = at_;
    }
  }
  std::string take(bool (*of)(char)) {
    std::string out;
    while (at_ < text_.size() && of(text_[at_])) {
      out += text_[at_];
      step();
    }
    return out;
  }

  PythonToken token(char c) {
    PythonToken t;
    t.position = place();
    if (is_name_start(c)) {
      const std::size_t from = at_;
      t.text = take(is_name_letter);
      const bool quote = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
      if (quote && at_ - from <= 2) return prefixed(t);
      t.kind = Kind::name;
      return t;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
        (c == '.' && at_ + 1 < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + 1])) != 0)) {
      t.kind = Kind::number;
      while (at_ < text_.size() && (is_name_letter(text_[at_]) || text_[at_] == '.' || is_exponent_sign())) {
        t.text += text_[at_];
        step();
      }
      return t;
    }
    if (c == '"' || c == '\'') {
      t.kind = Kind::text;
      t.text = quoted(false);
      return t;
    }
    t.kind = Kind::sign;
    t.text = c;
    step();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    // Two-letter operators, so that "==" is no assignment.
    if ((next == '=' && std::string_view("=!<>+-*/%&|^@:").find(c) != std::string_view::npos) ||
        (c == '*' && next == '*')) {
      t.text += next;
      step();
    }
    if (c == '(' || c == '[' || c == '{') ++open_;
    if ((c == ')' || c == ']' || c == '}') && open_ > 0) --open_;
    return t;
  }

  [[nodiscard]] bool is_exponent_sign() const {
    return (text_[at_] == '+' || text_[at_] == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
  }

  /// A text behind letters such as r"" and f""; f"" is no literal.
  PythonToken prefixed(PythonToken t) {
    std::string letters = t.text;
    std::transform(letters.begin(), letters.end(), letters.begin(), [](char c) { return std::tolower(c); });
    const bool raw = letters.find('r') != std::string::npos;
    const bool formatted = letters.find('f') != std::string::npos;
    t.text = quoted(raw);
    t.kind = formatted ? Kind::sign : Kind::text;
    if (formatted) t.text = "f" + t.text;  // like no sign
    return t;
  }

  std::string quoted(bool raw) {
    const char mark = text_[at_];
    const std::string three(3, mark);
    const bool is_long = text_.substr(at_).starts_with(three);
    for (int i = is_long ? 3 : 1; i > 0; --i) step();
    std::string out;
    while (at_ < text_.size()) {
      if (is_long ? text_.substr(at_).starts_with(three) : text_[at_] == mark) {
        for (int i = is_long ? 3 : 1; i > 0; --i) step();
        break;
      }
      if (!is_long && text_[at_] == '\n') break;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        step();
        const char c = text_[at_];
        if (raw) out += '\\';
        out += raw ? c : c == 'n' ? '\n' : c == 't' ? '\t' : c;
        step();
        continue;
      }
      out += text_[at_];
      step();
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0, begin_ = 0;
  std::uint32_t line_ = 1;
  std::size_t open_ = 0;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view text) { return Tokens(text).all(); }

}  // namespace orrery
