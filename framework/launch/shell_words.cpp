#include "framework/launch/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace orrery {
namespace {

using End = ShellCommand::End;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class Lexer {
 public:
  Lexer(const std::string& text, std::size_t begin, std::size_t end) : text_(text), at_(begin), end_(end) {}

  std::vector<ShellCommand> commands() {
    while (at_ < end_) {
      if (in_pattern_) {
        pattern();
        continue;
      }
      if (!blanks()) continue;
      step();
    }
    close(End::line);
    return std::move(out_);
  }

  std::vector<ShellWord> words() {
    std::vector<ShellWord> out;
    while (at_ < end_) {
      const char c = text_[at_];
      if (is_blank(c) || c == '\n') {
        ++at_;
      } else if (is_continuation()) {
        skip_continuation();
      } else if (c == '#') {
        skip_line();
      } else {
        out.push_back(word(false));
      }
    }
    return out;
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const { return at_ + ahead < end_ ? text_[at_ + ahead] : '\0'; }
  [[nodiscard]] std::string_view slice(const ShellWord& w) const {
    return std::string_view(text_).substr(w.begin, w.end - w.begin);
  }
  /// A backslash before the end of the line, blanks between them or not.
  [[nodiscard]] bool is_continuation() const {
    if (peek() != '\\') return false;
    std::size_t i = at_ + 1;
    while (i < end_ && is_blank(text_[i])) ++i;
    return i >= end_ || text_[i] == '\n';
  }
  void skip_continuation() {
    at_ = std::min(text_.find('\n', at_), end_);
    if (at_ < end_) ++at_;
  }
  void skip_line() { at_ = std::min(text_.find('\n', at_), end_); }

  /// Passes blanks and continuations; false where a comment was passed with its line.
  bool blanks() {
    while (at_ < end_) {
      if (is_blank(peek())) {
        ++at_;
      } else if (is_continuation()) {
        skip_continuation();
        continued_ = true;
      } else if (peek() == '#') {
        const bool own_line = continued_;
        skip_line();
        if (own_line && at_ < end_) ++at_;
        return false;
      } else {
        return true;
      }
    }
    return false;
  }

  void close(End end) {
    continued_ = false;
    in_test_ = false;
    if (current_.words.empty()) {
      if (end != End::arm) return;
    }
    current_.end = end;
    out_.push_back(std::move(current_));
    current_ = {};
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      close(End::line);
      skip_documents();
    } else if (c == ';') {
      const bool arm = peek(1) == ';';
      at_ += arm ? 2 : 1;
      close(arm ? End::arm : End::line);
      if (arm && cases_ > 0) in_pattern_ = true;
    } else if (in_test_ && (c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>')) {
      const std::uint32_t begin = static_cast<std::uint32_t>(at_);
      at_ += peek(1) == c ? 2 : 1;
      current_.words.push_back({begin, static_cast<std::uint32_t>(at_)});
    } else if (c == '&' && peek(1) == '&') {
      at_ += 2;
      close(End::both);
    } else if (c == '|' && peek(1) == '|') {
      at_ += 2;
      close(End::either);
    } else if (c == '|') {
      ++at_;
      close(End::pipe);
    } else if (c == '&' && peek(1) == '>') {
      redirection();
    } else if (c == '(' && function_parentheses() > 0) {
      at_ = function_parentheses();
      name_function();
    } else if (c == '&' || c == '(' || c == ')') {
      ++at_;
      close(End::line);
    } else if (c == '<' || c == '>') {
      redirection();
    } else {
      take_word();
    }
  }

  [[nodiscard]] bool has_function_word() const {
    return !current_.words.empty() && slice(current_.words.front()) == "function";
  }

  /// Past "()" behind the name of a function; 0 where there is none.
  [[nodiscard]] std::size_t function_parentheses() const {
    if (current_.words.size() != (has_function_word() ? 2U : 1U) || peek() != '(') return 0;
    std::size_t i = at_ + 1;
    while (i < end_ && is_blank(text_[i])) ++i;
    return i < end_ && text_[i] == ')' ? i + 1 : 0;
  }

  /// The word before was the name of a function.
  void name_function() {
    current_.words = {current_.words.back()};
    close(End::function);
  }

  void take_word() {
    continued_ = false;
    const ShellWord w = word(true);
    const std::string_view text = slice(w);
    // "2>" redirects.
    if ((peek() == '>' || peek() == '<') && std::all_of(text.begin(), text.end(), [](char c) {
          return std::isdigit(static_cast<unsigned char>(c)) != 0;
        })) {
      const bool before = current_.redirected;
      redirection();
      if (text == "2") current_.redirected = before;  // that is where mishaps are told
      return;
    }
    current_.words.push_back(w);
    if (current_.words.size() == 2 && has_function_word()) {
      while (at_ < end_ && is_blank(peek())) ++at_;
      if (peek() != '(') return name_function();
    }
    if (text == "[[" || text == "((") in_test_ = true;
    if (text == "]]") in_test_ = false;
    if (current_.words.size() == 3 && text == "in" && slice(current_.words.front()) == "case") {
      close(End::line);
      ++cases_;
      in_pattern_ = true;
    }
  }

  /// Passes a redirection and its target; notes the end of a here-document.
  void redirection() {
    const std::size_t begin = at_;
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '-') ++at_;
    const std::string_view sign = std::string_view(text_).substr(begin, at_ - begin);
    if (!sign.starts_with("<")) current_.redirected = true;
    while (is_blank(peek())) ++at_;
    if (at_ >= end_ || peek() == '\n' || peek() == '(') return;
    const ShellWord target = word(true);
    if (!sign.starts_with("<<") || sign.starts_with("<<<")) return;
    std::string end(slice(target));
    std::erase_if(end, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    documents_.push_back(end);
  }

  void skip_documents() {
    for (const std::string& end : documents_) {
      while (at_ < end_) {
        const std::size_t stop = std::min(text_.find('\n', at_), end_);
        std::string_view line = std::string_view(text_).substr(at_, stop - at_);
        at_ = std::min(stop + 1, end_);
        while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
        while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
        if (line == end) break;
      }
    }
    documents_.clear();
  }

  /// The patterns of an arm, up to its parenthesis, or the end of the case.
  void pattern() {
    while (at_ < end_ && (is_blank(peek()) || peek() == '\n' || is_continuation())) {
      if (is_continuation())
        skip_continuation();
      else
        ++at_;
    }
    if (peek() == '#') return skip_line();
    in_pattern_ = false;
    if (text_.compare(at_, 4, "esac") == 0) {
      --cases_;
      return;  // an ordinary word
    }
    if (peek() == '(') ++at_;
    while (at_ < end_ && peek() != ')' && peek() != '\n') {
      if (is_blank(peek()) || peek() == '|') {
        ++at_;
        continue;
      }
      current_.words.push_back(word(true));
    }
    if (peek() == ')') ++at_;
    close(End::pattern);
  }

  /// One word; quotes, substitutions and the parentheses of an array belong to it.
  ShellWord word(bool separated) {
    const std::size_t begin = at_;
    while (at_ < end_) {
      const char c = peek();
      if (is_blank(c) || c == '\n') break;
      if (separated && !in_test_ && (c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == ')')) break;
      if (separated && in_test_ && (c == ')' || c == ';')) break;
      if (c == '(') {
        if (!separated || (at_ > begin && text_[at_ - 1] == '=')) {
          nested('(', ')');
          continue;
        }
        break;
      }
      if (c == '\\') {
        if (is_continuation() && at_ > begin) break;
        at_ = std::min(at_ + 2, end_);
      } else if (c == '\'') {
        quoted('\'');
      } else if (c == '"' || c == '`') {
        quoted(c);
      } else if (c == '$' && peek(1) == '{') {
        ++at_;
        nested('{', '}');
      } else if (c == '$' && peek(1) == '(') {
        ++at_;
        nested('(', ')');
      } else {
        ++at_;
      }
    }
    if (at_ == begin && at_ < end_) ++at_;
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)};
  }

  void quoted(char mark) {
    ++at_;
    while (at_ < end_ && peek() != mark) {
      if (peek() == '\\' && mark != '\'') {
        at_ += 2;
      } else if (mark == '"' && peek() == '$' && (peek(1) == '(' || peek(1) == '{')) {
        ++at_;
        nested(peek(), peek() == '(' ? ')' : '}');
      } else {
        ++at_;
      }
    }
    at_ = std::min(at_ + 1, end_);
  }

  /// Passes brackets that match, quotes and comments within them.
  void nested(char open, char shut) {
    int depth = 0;
    while (at_ < end_) {
      const char c = peek();
      if (c == '\'' && open == '(') {
        quoted('\'');
        continue;
      }
      if (c == '"' && nesting_ < 64) {
        ++nesting_;
        quoted('"');
        --nesting_;
        continue;
      }
      if (c == '#' && open == '(' && at_ > 0 && (is_blank(text_[at_ - 1]) || text_[at_ - 1] == '\n')) {
        skip_line();
        continue;
      }
      ++at_;
      if (c == '\\') at_ = std::min(at_ + 1, end_);
      if (c == open) ++depth;
      if (c == shut && --depth == 0) return;
    }
  }

  const std::string& text_;
  std::size_t at_, end_;
  std::vector<ShellCommand> out_;
  ShellCommand current_;
  std::vector<std::string> documents_;  ///< ends of here-documents that begin on the next line
  bool continued_ = false;              ///< nothing but blanks since a continuation
  bool in_test_ = false;                ///< within [[ ]]
  bool in_pattern_ = false;
  int cases_ = 0;
  int nesting_ = 0;
};

}  // namespace

std::vector<ShellCommand> shell_commands(const std::string& text) { return shell_commands(text, 0, text.size()); }

std::vector<ShellCommand> shell_commands(const std::string& text, std::size_t begin, std::size_t end) {
  return Lexer(text, begin, std::min(end, text.size())).commands();
}

std::vector<ShellWord> shell_words(const std::string& text, std::uint32_t begin, std::uint32_t end) {
  return Lexer(text, begin, std::min<std::size_t>(end, text.size())).words();
}

}  // namespace orrery
