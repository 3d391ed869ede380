#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "framework/launch/launch_syntax.hpp"
#include "framework/launch/launch_value.hpp"
#include "framework/launch/python_tokens.hpp"

// Literals in Python: keyword arguments of calls, and assignments. Nothing is executed; what is no literal is left out.

namespace orrery {
namespace {

using Token = PythonToken;

class Literals {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;
  Literals(std::vector<Token> tokens, const Variables& variables, std::vector<LaunchValue>& into)
      : t_(std::move(tokens)), variables_(variables), into_(into) {}

  bool read() {
    while (!is(Token::Kind::end) && into_.size() < launch_value_limit) statement();
    return into_.size() < launch_value_limit;
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
      if (is('(')) skip_brackets();
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
    if (!is('=')) return;
    next();
    if (is_call()) return;  // its arguments have the name of what is called
    LaunchValue v;
    const std::size_t from = at_;
    const std::size_t values = into_.size();
    if (value(v, deepest) && ends_statement()) {
      if (v.position.line == 0) v.position = where;
      add(name, std::move(v), into_);
      return;
    }
    at_ = from;  // no literal: calls in it are looked at
    into_.resize(values);
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
    if (given(name, v)) return true;
    // A type or a constant of a class: "torch.bfloat16", "ShardingStrategy.FULL_SHARD".
    const std::string_view end = last(name);
    const bool constant =
        std::all_of(end.begin(), end.end(), [](char c) { return is_name_letter(c) && (c < 'a' || c > 'z'); });
    if (name.find('.') == std::string::npos || (!constant && !name.starts_with("torch."))) return false;
    v.kind = Kind::text;
    v.text = name;
    return true;
  }

  /// The value of a name: the one that a person gives, else the literal assigned last.
  bool given(const std::string& name, LaunchValue& v) const {
    const Position place = v.position;
    if (const auto at = variables_.find(name); at != variables_.end()) {
      const bool flag = at->second == "True" || at->second == "False" || at->second == "true" || at->second == "false";
      v.kind = flag ? Kind::flag : is_launch_number(at->second) ? Kind::number : Kind::text;
      v.text = flag ? (std::tolower(at->second.front()) == 't' ? "true" : "false") : at->second;
      return true;
    }
    const auto at = std::find_if(into_.rbegin(), into_.rend(), [&](const LaunchValue& a) { return a.key == name; });
    if (at == into_.rend() || !at->unknown.empty()) return false;
    v = *at;
    v.key.clear();
    v.position = place;
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
  const Variables& variables_;
  std::vector<LaunchValue>& into_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<LaunchFile> parse_launch_python(std::string text, std::string file,
                                              const std::map<std::string, std::string, std::less<>>& variables,
                                              Diagnostics& d) {
  LaunchFile out{LaunchSyntax::python, {std::move(file), std::move(text), {}}, {}};
  if (Literals(python_tokens(out.origin.text), variables, out.values).read()) return out;
  d.error_at(out.origin, {1, 1}, "launch.size", "the file has too many values",
             {fmt::format("At most {} are read.", launch_value_limit)});
  return std::nullopt;
}

}  // namespace orrery
