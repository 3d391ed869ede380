#include "core/base/json_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"

namespace orrery {

namespace {

using nlohmann::json;

/// How far the parser has read. The parser copies its iterators, so this stands outside of them.
struct Reach {
  std::string_view text;
  const WorkProgress* progress = nullptr;
  std::size_t at = 0;

  void step() {
    ++at;
    constexpr std::size_t often = std::size_t{1} << 20;
    if (at % often == 0 && *progress) (*progress)(at, text.size());
  }
};

/// The text, read character by character, so that the place of a key and the share read are known.
class Reader {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reader(const char* at, Reach* reach) : at_(at), reach_(reach) {}
  reference operator*() const { return *at_; }
  Reader& operator++() {
    ++at_;
    reach_->step();
    return *this;
  }
  Reader operator++(int) {
    Reader before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Reader& a, const Reader& b) { return a.at_ == b.at_; }
  friend bool operator!=(const Reader& a, const Reader& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  Reach* reach_;
};

/// Offset of the number that ends shortly before `end`.
std::size_t number_start(std::string_view text, std::size_t end) {
  constexpr std::string_view digits = "+-.0123456789eE";
  std::size_t at = end;
  while (at > 0 && digits.find(text[at - 1]) == std::string_view::npos) --at;
  while (at > 0 && digits.find(text[at - 1]) != std::string_view::npos) --at;
  return at;
}

/// Offset of the quote that opens the string whose closing quote lies before `end`.
std::size_t opening_quote(std::string_view text, std::size_t end) {
  for (std::size_t at = end - 1; at-- > 0;) {
    if (text[at] != '"') continue;
    std::size_t slashes = 0;
    while (slashes < at && text[at - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) return at;
  }
  return 0;
}

/// Offset behind the string whose opening quote stands at `at`; the end of the text where the string does not end.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

/// A text in which every number that JSON does not have is replaced by a string of the same length, so that all offsets
/// stay. The numbers themselves are kept by the offset behind them.
struct Stated {
  std::string text;
  std::map<std::size_t, double> numbers;
};

Stated without_non_finite(std::string_view text) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array<std::pair<std::string_view, double>, 3> words{
      {{"NaN", std::numeric_limits<double>::quiet_NaN()}, {"Infinity", infinity}, {"-Infinity", -infinity}}};
  constexpr std::string_view space = " \t\r\n", before = ":,[", behind = ",]}";
  Stated out{std::string(text), {}};
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = string_end(text, at);
      continue;
    }
    std::size_t length = 1;
    for (const auto& [word, number] : words) {
      const std::size_t end = at + word.size();
      if (text.substr(at, word.size()) != word) continue;
      // Such a number counts only where a value may stand: keys, and names with letters beside it, stay as they are.
      const std::size_t last = at == 0 ? std::string_view::npos : text.find_last_not_of(space, at - 1);
      if (last != std::string_view::npos && before.find(text[last]) == std::string_view::npos) continue;
      const std::size_t next = text.find_first_not_of(space, end);
      if (next != std::string_view::npos && behind.find(text[next]) == std::string_view::npos) continue;
      out.text.replace(at, word.size(), '"' + std::string(word.size() - 2, ' ') + '"');
      out.numbers.emplace(end, number);
      length = word.size();
    }
    at += length;
  }
  return out;
}

/// Builds the value.  json::parse with a callback would look through an array once more for each object that ends in
/// it, which takes minutes where a file has a million.
class Builder {
 public:
  /// `numbers` are those of Stated.
  Builder(std::string_view text, const Reach& reach, const std::map<std::size_t, double>& numbers,
          const JsonReading& reading, json& to)
      : text_(text), reach_(reach), numbers_(numbers), reading_(reading), to_(to) {}

  [[nodiscard]] std::vector<JsonMistake> take() { return std::move(mistakes_); }

  // json::sax_parse calls these.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) {
    const auto number = numbers_.find(reach_.at);
    return number == numbers_.end() ? add(std::move(value)) : add(number->second);
  }
  bool binary(json::binary_t& value) { return add(std::move(value)); }
  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_array() {
    around_.pop_back();
    return true;
  }

  bool key(std::string& name) {
    if (reading_.key_seen) {
      reading_.key_seen(static_cast<int>(around_.size()), name, opening_quote(text_, reach_.at));
    }
    Level& level = around_.back();
    const auto [at, first] = level.value->get_ref<json::object_t&>().insert_or_assign(name, nullptr);
    if (!first && reading_.keys_once && mistakes_.size() < most) {
      mistakes_.push_back({JsonMistake::Kind::key, opening_quote(text_, reach_.at), name});
    }
    level.key = std::move(name);
    level.place = &at->second;
    return true;
  }

  bool end_object() {
    const json& whole = *around_.back().value;
    around_.pop_back();
    if (reading_.at != nullptr) *reading_.at = reach_.at;
    if (!reading_.keep || reading_.keep(static_cast<int>(around_.size()), whole)) return true;
    if (around_.empty()) {
      to_ = nullptr;
    } else if (const Level& level = around_.back(); level.value->is_array()) {
      level.value->erase(level.value->size() - 1);
    } else {
      level.value->erase(level.key);
    }
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const json::exception& wrong) {
    constexpr int number_out_of_range = 406;  // says no place; the number was the last thing read
    if (wrong.id == number_out_of_range) {
      mistakes_.assign(1, {JsonMistake::Kind::number, number_start(text_, std::min(reach_.at, text_.size())), {}});
    } else {
      mistakes_.assign(1, {JsonMistake::Kind::syntax, std::min(byte > 0 ? byte - 1 : 0, text_.size()), {}});
    }
    return false;
  }

 private:
  static constexpr std::size_t most = 10;
  /// An object or array around the place that is read.
  struct Level {
    json* value = nullptr;
    std::string key;        ///< of an object the last, with
    json* place = nullptr;  ///< where its value goes
  };

  template <class Value>
  json& put(Value&& value) {
    if (around_.empty()) return to_ = std::forward<Value>(value);
    Level& level = around_.back();
    if (level.value->is_object()) return *level.place = std::forward<Value>(value);
    auto& list = level.value->get_ref<json::array_t&>();
    return list.emplace_back(std::forward<Value>(value));
  }
  template <class Value>
  bool add(Value&& value) {
    put(std::forward<Value>(value));
    return true;
  }
  bool open(json empty) {
    around_.push_back({&put(std::move(empty)), {}, nullptr});
    return true;
  }

  std::string_view text_;
  const Reach& reach_;
  const std::map<std::size_t, double>& numbers_;
  const JsonReading& reading_;
  json& to_;
  std::vector<Level> around_;
  std::vector<JsonMistake> mistakes_;
};

}  // namespace

std::vector<JsonMistake> parse_json_text(std::string_view given, json& to, const JsonReading& reading) {
  const Stated stated = reading.non_finite ? without_non_finite(given) : Stated{};
  const std::string_view text = reading.non_finite ? std::string_view(stated.text) : given;
  Reach reach{text, &reading.progress};
  Builder builder(text, reach, stated.numbers, reading, to);
  json::sax_parse(Reader(text.data(), &reach), Reader(text.data() + text.size(), &reach), &builder);
  return builder.take();
}

std::size_t value_offset(std::string_view text, std::size_t key) {
  const std::size_t at = text.find_first_not_of(" \t\r\n:", string_end(text, key));
  return at == std::string_view::npos ? text.size() : at;
}

Position position_at(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t end = before.rfind('\n');
  return {line + 1, 1 + character_count(end == std::string_view::npos ? before : before.substr(end + 1))};
}

}  // namespace orrery
