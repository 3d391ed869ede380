#include "validate/cell_words.hpp"

#include <algorithm>
#include <charconv>

namespace orrery {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

}  // namespace

CellWords::CellWords(std::string_view cell, std::string_view also) {
  const std::string text = lower_case(cell);
  const std::string parts = " ," + std::string(also);
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words_.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') {
      end_word();
      const std::size_t end = text.find_first_of("()", i + 1);
      sound_ = sound_ && end != std::string::npos && text[end] == ')';
      if (!sound_) return;
      remarks_.push_back(text.substr(i + 1, end - i - 1));
      i = end;
    } else if (parts.find(text[i]) != std::string::npos) {
      end_word();
    } else {
      sound_ = sound_ && text[i] != ')';
      word += text[i];
    }
  }
  end_word();
}

std::string_view CellWords::next() const { return next_ < words_.size() ? words_[next_] : std::string_view(); }

bool CellWords::take(std::string_view word) {
  return take_if([&](std::string_view w) { return w == word; });
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

bool is_version(std::string_view word) {
  if (word.starts_with('v') || word.starts_with('r')) word.remove_prefix(1);
  const std::size_t point = word.find('.');
  if (point == 0 || point == std::string_view::npos || point + 1 == word.size()) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(point), is_digit) &&
         is_digit(word[point + 1]) && std::all_of(word.begin(), word.end(), [](char c) {
           return is_digit(c) || is_letter(c) || c == '.' || c == '+';
         });
}

bool is_commit(std::string_view word) {
  if (word.starts_with('@')) word.remove_prefix(1);
  return word.size() >= 7 && word.size() <= 40 &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         word.find_first_of("0123456789") != std::string_view::npos;
}

bool is_date(std::string_view word) {
  if (word.size() != 7 && word.size() != 10) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i == 4 || i == 7 ? word[i] != '-' : !is_digit(word[i])) return false;
  }
  return true;
}

std::uint64_t number_of_word(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  return fault == std::errc{} && end == word.data() + word.size() ? value : 0;
}

}  // namespace orrery
