#include "core/program/program_text_scan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace orrery::program_text {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+';
}

std::uint32_t column_of(std::size_t at) { return static_cast<std::uint32_t>(at + 1); }

}  // namespace

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the line";
  // A long or binary token is cut: messages stay readable.
  std::string text;
  for (const char c : token.text.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return fmt::format("'{}{}'", text, token.text.size() > 40 ? "..." : "");
}

std::vector<Token> scan(std::string_view line) {
  std::vector<Token> tokens;
  std::size_t i = 0;
  while (i < line.size()) {
    const char c = line[i];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (c == '#') {
      break;
    } else if (c == '"') {
      std::size_t end = i + 1;
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      if (end >= line.size()) throw Mistake{column_of(i), "program.syntax", "the quoted name does not end", {}};
      tokens.push_back({Token::Kind::quoted, line.substr(i + 1, end - i - 1), column_of(i)});
      i = end + 1;
    } else if (is_word(c)) {
      std::size_t end = i;
      while (end < line.size() && is_word(line[end])) ++end;
      tokens.push_back({Token::Kind::word, line.substr(i, end - i), column_of(i)});
      i = end;
    } else if (std::string_view("%:=,()[]{}@*/").find(c) != std::string_view::npos) {
      tokens.push_back({Token::Kind::sign, line.substr(i, 1), column_of(i)});
      ++i;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      throw Mistake{column_of(i),
                    "program.syntax",
                    byte > 0x20 && byte < 0x7f ? fmt::format("'{}' has no meaning here", c)
                                               : fmt::format("byte 0x{:02x} has no meaning here", byte),
                    {}};
    }
  }
  tokens.push_back({Token::Kind::end, {}, column_of(line.size())});
  return tokens;
}

const Token& Line::next() {
  const Token& token = tokens_[at_];
  if (token.kind != Token::Kind::end) ++at_;
  return token;
}

bool Line::take(std::string_view text) {
  const Token& token = peek();
  if (token.kind == Token::Kind::quoted || token.kind == Token::Kind::end || token.text != text) return false;
  ++at_;
  return true;
}

void Line::expect(std::string_view text) {
  if (!take(text)) fail("program.syntax", fmt::format("expected '{}', found {}", text, shown(peek())));
}

void Line::expect_end() {
  if (!ended()) fail("program.syntax", fmt::format("expected the end of the line, found {}", shown(peek())));
}

std::string_view Line::word(std::string_view what) {
  if (peek().kind != Token::Kind::word) {
    fail("program.syntax", fmt::format("expected {}, found {}", what, shown(peek())));
  }
  return next().text;
}

std::string Line::name(std::string_view what) {
  const Token token = peek();
  if (token.kind == Token::Kind::word) return std::string(next().text);
  if (token.kind != Token::Kind::quoted) {
    fail("program.syntax", fmt::format("expected {}, found {}", what, shown(token)));
  }
  next();
  std::string out;
  for (std::size_t i = 0; i < token.text.size(); ++i) {
    if (token.text[i] != '\\') {
      out += token.text[i];
      continue;
    }
    const char escaped = ++i < token.text.size() ? token.text[i] : '\0';
    if (escaped == '"' || escaped == '\\') {
      out += escaped;
      continue;
    }
    unsigned value = 0;
    const char* const digits = token.text.data() + i + 1;
    if (escaped != 'x' || i + 2 >= token.text.size() ||
        std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) {
      fail_at(token, "program.syntax", "unknown escape in a quoted name", {R"(Known: \" \\ \xNN.)"});
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

std::uint64_t Line::number(std::string_view what, std::uint64_t limit) {
  const Token token = peek();
  const std::string_view text = word(what);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range ||
      (error == std::errc() && end == text.data() + text.size() && value > limit)) {
    fail_at(token, "program.number", fmt::format("{} is too large", what), {fmt::format("The largest is {}.", limit)});
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    fail_at(token, "program.number", fmt::format("expected {}, found {}", what, shown(token)),
            {"A whole number of decimal digits."});
  }
  return value;
}

std::int64_t Line::signed_number(std::string_view what, std::int64_t low, std::int64_t high) {
  const Token token = peek();
  const std::string_view text = word(what);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    fail_at(token, "program.number", fmt::format("expected {}, found {}", what, shown(token)),
            {fmt::format("A whole number from {} to {}.", low, high)});
  }
  return value;
}

double Line::real(std::string_view what) {
  const Token token = peek();
  const std::string_view text = word(what);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    fail_at(token, "program.number", fmt::format("expected {}, found {}", what, shown(token)),
            {"A finite decimal number, such as 1e-05."});
  }
  return value;
}

void Line::fail(std::string code, std::string message, std::vector<std::string> details) const {
  fail_at(peek(), std::move(code), std::move(message), std::move(details));
}

void Line::fail_at(const Token& where, std::string code, std::string message, std::vector<std::string> details) const {
  throw Mistake{where.column, std::move(code), std::move(message), std::move(details)};
}

}  // namespace orrery::program_text
