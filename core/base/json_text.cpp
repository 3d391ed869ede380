#include "core/base/json_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"

namespace orrery {

namespace {

using nlohmann::json;

/// How far the parser has read; its iterators are copies, this is not.
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

/// The text, character by character, so that the place of a key and the share read are known.
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

/// Offset of the number that ends somewhat before `end`.
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

/// Offset behind the string whose opening quote stands at `at`; the text's end where it does not end.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

/// A text with a string of the same length in place of every number that JSON does not have, so that all offsets
/// stay, and these numbers by the offset behind them.
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
      // It stands where a value may: keys, and letters beside it, stay as they are.
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

}  // namespace

std::vector<JsonMistake> parse_json_text(std::string_view given, json& to, const JsonReading& reading) {
  constexpr std::size_t most = 10;
  const Stated stated = reading.non_finite ? without_non_finite(given) : Stated{};
  const std::string_view text = reading.non_finite ? std::string_view(stated.text) : given;
  Reach reach{text, &reading.progress};
  std::vector<JsonMistake> mistakes;
  std::vector<std::set<std::string>> open;  // keys of the objects around the place
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        if (reading.keys_once) open.emplace_back();
        return true;
      case json::parse_event_t::key:
        if (reading.key_seen)
          reading.key_seen(depth, value.get_ref<const std::string&>(), opening_quote(text, reach.at));
        if (!reading.keys_once) return true;
        if (!open.back().insert(value.get_ref<const std::string&>()).second && mistakes.size() < most) {
          mistakes.push_back(
              {JsonMistake::Kind::key, opening_quote(text, reach.at), value.get_ref<const std::string&>()});
        }
        return true;
      case json::parse_event_t::object_end:
        if (reading.keys_once) open.pop_back();
        if (reading.at != nullptr) *reading.at = reach.at;
        return !reading.keep || reading.keep(depth, value);
      case json::parse_event_t::array_start:
      case json::parse_event_t::array_end: return true;
      case json::parse_event_t::value:
        if (const auto number = stated.numbers.find(reach.at); number != stated.numbers.end()) value = number->second;
        return true;
    }
    return true;
  };
  try {
    to = json::parse(Reader(text.data(), &reach), Reader(text.data() + text.size(), &reach), look);
  } catch (const json::parse_error& e) {
    const std::size_t at = std::min<std::size_t>(e.byte > 0 ? e.byte - 1 : 0, text.size());
    mistakes.assign(1, {JsonMistake::Kind::syntax, at, {}});
  } catch (const json::exception&) {  // says no place; the number was the last thing read
    mistakes.assign(1, {JsonMistake::Kind::number, number_start(text, std::min(reach.at, text.size())), {}});
  }
  return mistakes;
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
