#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The text of a cell as words and remarks, which are taken one after the other: "H100-SXM (96GB HBM2e)" is "h100",
/// "sxm" and the remark "96gb hbm2e", all in lower case. A cell is understood when nothing is left.
class CellWords {
 public:
  /// Spaces and commas separate words, and so does each character of `also`.
  explicit CellWords(std::string_view cell, std::string_view also = "");

  [[nodiscard]] bool done() const { return sound_ && next_ == words_.size() && remarks_.empty(); }
  /// The next word; empty at the end.
  [[nodiscard]] std::string_view next() const;
  /// Takes the next word if it is this one.
  bool take(std::string_view word);
  /// Takes the next word if `fits` says so.
  template <class Fits>
  bool take_if(const Fits& fits) {
    if (next().empty() || !fits(next())) return false;
    ++next_;
    return true;
  }
  /// Takes away every remark that fits.
  template <class Fits>
  void take_remarks(const Fits& fits) {
    std::erase_if(remarks_, [&](const std::string& remark) { return fits(std::string_view(remark)); });
  }
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  std::vector<std::string> words_, remarks_;
  std::size_t next_ = 0;
  bool sound_ = true;  ///< brackets pair
};

[[nodiscard]] std::string lower_case(std::string_view text);

/// Whether the word is a version: digits around a point, with further parts of a release, as in "24.07", "v1.0",
/// "r0.8.0", "2.7.0a0", "2.11.0+c188b533".
[[nodiscard]] bool is_version(std::string_view word);
/// Whether the word is a commit's name, 7 to 40 hexadecimal digits: "9dec370", "@d98e8a64dd".
[[nodiscard]] bool is_commit(std::string_view word);
/// "2024-12", "2025-06-30".
[[nodiscard]] bool is_date(std::string_view word);
/// The whole word as a number; 0 where it is none.
[[nodiscard]] std::uint64_t number_of_word(std::string_view word);

}  // namespace orrery
