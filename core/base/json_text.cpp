#include "core/base/json_text.hpp"

#include <algorithm>
#include <iterator>
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

}  // namespace

std::vector<JsonMistake> parse_json_text(std::string_view text, json& to, const JsonReading& reading) {
  constexpr std::size_t most = 10;
  Reach reach{text, &reading.progress};
  std::vector<JsonMistake> mistakes;
  std::vector<std::set<std::string>> open;  // keys of the objects around the place
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        if (reading.keys_once) open.emplace_back();
        return true;
      case json::parse_event_t::key:
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
      case json::parse_event_t::array_end:
      case json::parse_event_t::value: return true;
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

Position position_at(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t end = before.rfind('\n');
  return {line + 1, 1 + character_count(end == std::string_view::npos ? before : before.substr(end + 1))};
}

}  // namespace orrery
