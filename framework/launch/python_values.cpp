#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "framework/launch/launch_syntax.hpp"
#include "framework/launch/launch_value.hpp"

// Literals in Python: keyword arguments of calls, and assignments. Nothing is executed; what is no literal is left out.
// A name stands for the literal that the file gives it, where it gives it one alone.

namespace orrery {
namespace {

struct Token {
  enum class Kind : std::uint8_t { name, number, text, sign, line, end };
  Kind kind = Kind::end;
  std::string text;
  Position position;
};

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Words of the text. A line ends where no bracket is open.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        step(), step();
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (c == '\n') {
        if (open_ == 0) out.push_back({Token::Kind::line, "", place()});
        step();
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        step();
      } else {
        out.push_back(token(c));
      }
    }
    out.push_back({Token::Kind::end, "", place()});
    return out;
  }

 private:
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

  Token token(char c) {
    Token t;
    t.position = place();
    if (is_name_start(c)) {
      const std::size_t from = at_;
      t.text = take(is_name);
      const bool quote = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
      if (quote && at_ - from <= 2) return prefixed(t);
      t.kind = Token::Kind::name;
      return t;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
        (c == '.' && at_ + 1 < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + 1])) != 0)) {
      t.kind = Token::Kind::number;
      while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '.' || is_exponent_sign())) {
        t.text += text_[at_];
        step();
      }
      return t;
    }
    if (c == '"' || c == '\'') {
      t.kind = Token::Kind::text;
      t.text = quoted(false);
      return t;
    }
    t.kind = Token::Kind::sign;
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
  Token prefixed(Token t) {
    std::string letters = t.text;
    std::transform(letters.begin(), letters.end(), letters.begin(), [](char c) { return std::tolower(c); });
    const bool raw = letters.find('r') != std::string::npos;
    const bool formatted = letters.find('f') != std::string::npos;
    t.text = quoted(raw);
    t.kind = formatted ? Token::Kind::sign : Token::Kind::text;
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

class Literals {
 public:
  using Given = std::map<std::string, std::string, std::less<>>;
  Literals(std::vector<Token> tokens, const Given& given, std::vector<LaunchValue>& into)
      : t_(std::move(tokens)), given_(given), into_(into) {}

  bool read() {
    while (!is(Token::Kind::end) && into_.size() < launch_value_limit) statement();
    if (into_.size() >= launch_value_limit) return false;
    // A name is spoken of where it is used.
    std::erase_if(into_, [&](const LaunchValue& v) { return used_.contains(v.key); });
    return true;
  }

 private:
  using Kind = LaunchValue::Kind;
  static constexpr int deepest = 16;

  [[nodiscard]] const Token& now(std::size_t ahead = 0) const { return t_[std::min(at_ + ahead, t_.size() - 1)]; }
  [[nodiscard]] bool is(Token::Kind kind) const { return now().kind == kind; }
  [[nodiscard]] bool is(char c, std::size_t ahead = 0) const {
    return now(ahead).kind == Token::Kind::sign && now(ahead).text.size() == 1 && now(ahead).text[0] == c;
  }
  void next() { at_ += at_ + 1 < t_.size() ? 1 : 0; }

  /// A dotted name: "cfg.model.x".
  std::string path() {
    std::string out;
    while (is(Token::Kind::name)) {
      out += now().text;
      next();
      if (!is('.') || now(1).kind != Token::Kind::name) break;
      out += '.';
      next();
    }
    return out;
  }

  static std::string_view last(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? path : path.substr(dot + 1);
  }

  /// One name with what follows it: a call, an assignment, or neither.
  void statement() {
    if (!is(Token::Kind::name)) return next();
    if (now().text == "def" || now().text == "class") {
      // Their brackets hold defaults and bases, not arguments.
      next();
      path();
      if (is('(')) {
        const std::size_t from = at_;
        skip_brackets();
        // A parameter hides a name of the file.
        for (std::size_t i = from; i < at_; ++i) {
          if (t_[i].kind == Token::Kind::name) constants_[t_[i].text] = std::nullopt;
        }
      }
      return;
    }
    const Position where = now().position;
    const std::string name = path();
    if (is('(')) {
      LaunchValue none;
      call(std::string(last(name)), into_, deepest, none);
      return;
    }
    // "x: int = 3" has a type between.
    if (is(':') && now(1).kind == Token::Kind::name && is('=', 2)) next(), next();
    if (!is('=')) {
      // "n += 1" and "for n in": the name has more than one value.
      if (now().kind == Token::Kind::sign && now().text.size() == 2 && now().text[1] == '=' && now().text != "==")
        constants_[name] = std::nullopt;
      if (now().kind == Token::Kind::name && now().text == "in") constants_[name] = std::nullopt;
      return;
    }
    next();
    if (is_call()) {  // its arguments have the name of what is called
      constants_[name] = std::nullopt;
      return;
    }
    LaunchValue v;
    const std::size_t from = at_;
    const std::size_t values = into_.size();
    const bool literal = value(v, deepest) && ends_statement();
    name_constant(name, literal ? &v : nullptr);
    if (literal) {
      if (v.position.line == 0) v.position = where;
      add(name, std::move(v), into_);
      return;
    }
    at_ = from;  // no literal: calls in it are looked at
    into_.resize(values);
  }

  /// Remembers what an assignment gives a name; null is what is computed.
  void name_constant(const std::string& name, const LaunchValue* v) {
    const bool known = v != nullptr && v->kind != Kind::table && v->kind != Kind::none;
    const auto [at, first] = constants_.try_emplace(name);
    if (first && known) {
      at->second = *v;
    } else if (at->second && (!known || at->second->kind != v->kind || at->second->text != v->text)) {
      at->second = std::nullopt;  // two values, of which nothing says which one holds
    }
  }

  /// The literal that a name stands for; false where there is none.
  bool constant(const std::string& name, LaunchValue& v) {
    const Position here = v.position;
    if (const auto at = given_.find(name); at != given_.end()) {
      used_.insert(name);
      v.text = at->second;
      v.kind = v.text == "True" || v.text == "False" ? Kind::flag
               : is_launch_number(v.text)            ? Kind::number
                                                     : Kind::text;
      if (v.kind == Kind::flag) v.text = v.text == "True" ? "true" : "false";
      return true;
    }
    const auto at = constants_.find(name);
    if (at == constants_.end() || !at->second) return false;
    used_.insert(name);
    v = *at->second;
    v.key.clear();
    v.position = here;
    return true;
  }

  [[nodiscard]] bool ends_statement() const {
    return is(Token::Kind::line) || is(Token::Kind::end) || is(';') || is(')') || is(',') || is(']') || is('}');
  }

  /// Whether a call stands here.
  [[nodiscard]] bool is_call() const {
    std::size_t i = 0;
    while (now(i).kind == Token::Kind::name && is('.', i + 1)) i += 2;
    return now(i).kind == Token::Kind::name && is('(', i + 1);
  }

  void skip_brackets() {
    int open = 0;
    do {
      if (is('(') || is('[') || is('{')) ++open;
      if (is(')') || is(']') || is('}')) --open;
      next();
    } while (open > 0 && !is(Token::Kind::end));
  }

  /// Tables are flattened below their key; a call is a table whose name is text.
  void add(const std::string& key, LaunchValue v, std::vector<LaunchValue>& into) {
    if (v.kind != Kind::table) {
      v.key = key;
      into.push_back(std::move(v));
      return;
    }
    if (!v.text.empty() || v.items.empty()) {
      LaunchValue head;
      head.key = key;
      head.kind = v.text.empty() ? Kind::table : Kind::text;
      head.text = v.text;
      head.position = v.position;
      into.push_back(std::move(head));
    }
    for (LaunchValue& item : v.items) {
      item.key = key + "." + item.key;
      into.push_back(std::move(item));
    }
  }

  /// "Name(a=1, b=[2])": arguments with names go to `into`, as "Name.a". Stands at the bracket.
  void call(const std::string& name, std::vector<LaunchValue>& into, int depth, LaunchValue& as) {
    as.kind = Kind::table;
    as.text = name;
    const Position where = now().position;
    const std::size_t before = into.size();
    next();
    while (!is(')') && !is(Token::Kind::end)) {
      if (is(',')) {
        next();
        continue;
      }
      if (is(Token::Kind::name) && is('=', 1)) {
        const std::string key = now().text;
        const Position at = now().position;
        next(), next();
        const std::size_t from = at_;
        LaunchValue v;
        if (depth > 0 && value(v, depth - 1) && (is(',') || is(')'))) {
          add(name.empty() ? key : name + "." + key, std::move(v), into);
          continue;
        }
        // What is computed has its key and place, and no value.
        at_ = from;
        LaunchValue open;
        open.kind = Kind::text;
        open.text = expression();
        open.unknown = open.text;
        open.key = name.empty() ? key : name + "." + key;
        open.position = at;
        into.push_back(std::move(open));
        continue;
      }
      argument(depth);
    }
    next();
    if (into.size() == before && !name.empty() && std::isupper(static_cast<unsigned char>(name.front())) != 0) {
      LaunchValue bare;  // a class without named arguments
      bare.key = name;
      bare.position = where;
      into.push_back(std::move(bare));
    }
  }

  /// Passes over an argument without a name; calls in it are looked at for themselves.
  void argument(int depth) {
    while (!is(',') && !is(')') && !is(Token::Kind::end)) {
      if (is(Token::Kind::name)) {
        const std::string name = path();
        LaunchValue none;
        if (is('(') && depth > 0)
          call(std::string(last(name)), into_, depth - 1, none);
        else if (is('('))
          skip_brackets();
      } else if (is('(') || is('[') || is('{')) {
        skip_brackets();
      } else {
        next();
      }
    }
  }

  std::string expression() {
    std::string out;
    int open = 0;
    while (!is(Token::Kind::end)) {
      if (open == 0 && (is(',') || is(')'))) break;
      if (is('(') || is('[') || is('{')) ++open;
      if (is(')') || is(']') || is('}')) --open;
      out += now().text;
      next();
    }
    return out;
  }

  /// A literal, or a call as a table; false, at any place, where it is none.
  bool value(LaunchValue& v, int depth) {
    v = LaunchValue();
    v.position = now().position;
    const bool negative = is('-');
    if (negative || is('+')) next();
    if (is(Token::Kind::number)) return number(v, negative);
    if (negative) return false;
    if (is(Token::Kind::text)) {
      v.kind = Kind::text;
      for (; is(Token::Kind::text); next()) v.text += now().text;
      return true;
    }
    if (is('[') || is('(')) return list(v, is('[') ? ']' : ')', depth);
    if (is('{')) return dictionary(v, depth);
    if (!is(Token::Kind::name)) return false;
    const std::string name = path();
    if (name == "True" || name == "False") {
      v.kind = Kind::flag;
      v.text = name == "True" ? "true" : "false";
      return true;
    }
    if (name == "None") return true;
    if (!is('(') && constant(name, v)) return true;
    if (is('(')) {
      const std::string called(last(name));
      const Position at = v.position;
      std::vector<LaunchValue> items;
      if (depth == 0) return false;
      if (is(')', 1) || now(1).kind == Token::Kind::name) {
        call("", items, depth, v);
        v.text = called;
        v.items = std::move(items);
        v.position = at;
        return true;
      }
      return false;
    }
    // A type or a constant of a class: "torch.bfloat16", "ShardingStrategy.FULL_SHARD".
    const std::string_view end = last(name);
    const bool constant =
        std::all_of(end.begin(), end.end(), [](char c) { return is_name(c) && (c < 'a' || c > 'z'); });
    if (name.find('.') == std::string::npos || (!constant && !name.starts_with("torch."))) return false;
    v.kind = Kind::text;
    v.text = name;
    return true;
  }

  /// "8", "1e-4", and powers and products of such: 2**16, 1024 * 8.
  bool number(LaunchValue& v, bool negative) {
    v.kind = Kind::number;
    std::string digits = now().text;
    std::erase(digits, '_');
    next();
    const bool power = now().kind == Token::Kind::sign && now().text == "**";
    if ((power || is('*')) && now(1).kind == Token::Kind::number) {
      next();
      try {
        const double a = std::stod(digits), b = std::stod(now().text);
        double out = power ? 1.0 : a * b;
        if (power && (b < 0 || b > 64)) return false;
        for (int i = 0; power && i < static_cast<int>(b); ++i) out *= a;
        digits = fmt::format("{}", out);
      } catch (const std::exception&) {
        return false;
      }
      next();
    }
    v.text = (negative ? "-" : "") + digits;
    return true;
  }

  bool list(LaunchValue& v, char close, int depth) {
    v.kind = Kind::list;
    next();
    while (!is(close)) {
      LaunchValue item;
      if (depth == 0 || !value(item, depth - 1)) return false;
      v.items.push_back(std::move(item));
      if (v.items.size() > launch_value_limit) return false;
      if (is(','))
        next();
      else if (!is(close))
        return false;
    }
    next();
    return true;
  }

  bool dictionary(LaunchValue& v, int depth) {
    v.kind = Kind::table;
    next();
    while (!is('}')) {
      if (!is(Token::Kind::text)) return false;
      const std::string key = now().text;
      next();
      if (!is(':')) return false;
      next();
      LaunchValue item;
      if (depth == 0 || !value(item, depth - 1)) return false;
      add(key, std::move(item), v.items);
      if (is(','))
        next();
      else if (!is('}'))
        return false;
    }
    next();
    return true;
  }

  std::vector<Token> t_;
  const Given& given_;                                           ///< what --set gives names
  std::map<std::string, std::optional<LaunchValue>> constants_;  ///< empty: no literal, or several
  std::set<std::string> used_;                                   ///< names that stood for a value
  std::vector<LaunchValue>& into_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<LaunchFile> parse_launch_python(std::string text, std::string file,
                                              const std::map<std::string, std::string, std::less<>>& names,
                                              Diagnostics& d) {
  LaunchFile out{LaunchSyntax::python, {std::move(file), std::move(text), {}}, {}};
  if (Literals(Tokens(out.origin.text).all(), names, out.values).read()) return out;
  d.error_at(out.origin, {1, 1}, "launch.size", "the file has too many values",
             {fmt::format("At most {} are read.", launch_value_limit)});
  return std::nullopt;
}

}  // namespace orrery
