#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/launch/launch_syntax.hpp"

// JSON as values with places. Comments and commas behind the last entry are let through, as many programs do.

namespace orrery {
namespace {

class Json {
 public:
  Json(std::string_view text, std::vector<LaunchValue>& into) : text_(text), into_(into) {}

  bool read() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    skip();
    if (!open('{') || !table("", into_, deepest)) return false;
    skip();
    return at_ == text_.size();
  }

 private:
  static constexpr int deepest = 64;

  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool open(char c) {
    if (next() != c) return false;
    step();
    return true;
  }
  void step() {
    if (next() == '\n') {
      ++line_;
      begin_ = at_ + 1;
    }
    ++at_;
  }
  [[nodiscard]] Position place() const { return {line_, static_cast<std::uint32_t>(at_ - begin_ + 1)}; }

  void skip() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest.front() == ' ' || rest.front() == '\t' || rest.front() == '\r' || rest.front() == '\n') {
        step();
      } else if (rest.starts_with("//")) {
        while (at_ < text_.size() && next() != '\n') step();
      } else if (rest.starts_with("/*")) {
        const std::size_t end = text_.find("*/", at_ + 2);
        const std::size_t to = end == std::string_view::npos ? text_.size() : end + 2;
        while (at_ < to) step();
      } else {
        return;
      }
    }
  }

  bool hex(std::uint32_t& code) {
    code = 0;
    for (int i = 0; i < 4; ++i, step()) {
      const auto c = static_cast<unsigned char>(next());
      if (std::isxdigit(c) == 0) return false;
      code = code * 16 + static_cast<std::uint32_t>(std::isdigit(c) != 0 ? c - '0' : std::tolower(c) - 'a' + 10);
    }
    return true;
  }

  static void append_utf8(std::uint32_t c, std::string& out) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xc0 | (c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xe0 | (c >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xf0 | (c >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  bool escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const std::size_t at = letters.find(next());
    if (next() != '\0' && at != std::string_view::npos) {
      out += meant[at];
      step();
      return true;
    }
    std::uint32_t code = 0, low = 0;
    if (!open('u') || !hex(code)) return false;
    if (code >= 0xd800 && code < 0xdc00) {  // the first half of a pair
      if (!open('\\') || !open('u') || !hex(low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(code, out);
    return true;
  }

  bool quoted(std::string& out) {
    if (!open('"')) return false;
    while (at_ < text_.size()) {
      const char c = next();
      if (c == '\n') return false;
      step();
      if (c == '"') return true;
      if (c != '\\')
        out += c;
      else if (!escape(out))
        return false;
    }
    return false;
  }

  bool table(const std::string& path, std::vector<LaunchValue>& into, int depth) {
    for (skip(); next() != '}'; skip()) {
      std::string key;
      if (depth == 0 || !quoted(key)) return false;
      if (!path.empty()) key = path + "." + key;
      skip();
      if (!open(':')) return false;
      skip();
      if (!value(std::move(key), into, depth - 1)) return false;
      skip();
      if (!open(',') && next() != '}') return false;
    }
    return open('}');
  }

  bool value(std::string key, std::vector<LaunchValue>& into, int depth) {
    if (++count_ > launch_value_limit) return false;
    using Kind = LaunchValue::Kind;
    LaunchValue v;
    v.position = place();
    if (open('{')) {
      skip();
      // A table with a path is flattened; one in a list is not.
      if (next() != '}' && !key.empty()) return table(key, into, depth);
      v.kind = Kind::table;
      if (!table("", v.items, depth)) return false;
    } else if (open('[')) {
      v.kind = Kind::list;
      for (skip(); next() != ']'; skip()) {
        if (depth == 0 || !value("", v.items, depth - 1)) return false;
        skip();
        if (!open(',') && next() != ']') return false;
      }
      step();
    } else if (next() == '"') {
      v.kind = Kind::text;
      if (!quoted(v.text)) return false;
    } else {
      while (std::isalnum(static_cast<unsigned char>(next())) != 0 ||
             (next() != '\0' && std::string_view("+-.").find(next()) != std::string_view::npos)) {
        v.text += next();
        step();
      }
      if (v.text == "null")
        v.text.clear();
      else if (v.text == "true" || v.text == "false")
        v.kind = Kind::flag;
      else if (v.text.find_first_of("0123456789") != std::string::npos &&
               v.text.find_first_not_of("0123456789+-.eE") == std::string::npos)
        v.kind = Kind::number;
      else
        return false;
    }
    v.key = std::move(key);
    into.push_back(std::move(v));
    return true;
  }

  std::string_view text_;
  std::vector<LaunchValue>& into_;
  std::size_t at_ = 0, begin_ = 0, count_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

std::optional<std::vector<LaunchValue>> parse_launch_json(std::string_view text) {
  std::vector<LaunchValue> out;
  return Json(text, out).read() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace orrery
