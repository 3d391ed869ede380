#include "core/base/csv.hpp"

#include <cstdint>
#include <string_view>

namespace orrery {
namespace {

class Scanner {
 public:
  Scanner(const Origin& origin, Diagnostics& out) : origin_(origin), text_(origin.text), out_(out) {}

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> all;
    while (at_ < text_.size() && good_) {
      if (line_end() > 0) {
        next_line();
        continue;
      }
      CsvRow row = one_row();
      if (good_) all.push_back(std::move(row));
    }
    return all;
  }

 private:
  /// Number of characters of the line end that stands here; 0 where none does.
  [[nodiscard]] std::size_t line_end() const {
    if (text_.compare(at_, 1, "\n") == 0) return 1;
    return text_.compare(at_, 2, "\r\n") == 0 ? 2 : 0;
  }
  void next_line() {
    at_ += line_end();
    ++where_.line;
    where_.column = 1;
  }
  /// One character further; bytes inside a UTF-8 character are no columns.
  char take() {
    const char c = text_[at_++];
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++where_.column;
    return c;
  }
  void refuse(Position where, const char* message, const char* detail) {
    out_.error_at(origin_, where, "csv.quote", message, {detail});
    good_ = false;
  }

  CsvRow one_row() {
    CsvRow row;
    for (;;) {
      row.push_back(one_cell());
      if (!good_ || at_ >= text_.size()) return row;
      if (text_[at_] != ',') {
        next_line();
        return row;
      }
      take();
    }
  }

  CsvCell one_cell() {
    CsvCell cell{{}, where_};
    if (at_ < text_.size() && text_[at_] == '"') {
      quoted(cell);
      return cell;
    }
    while (at_ < text_.size() && text_[at_] != ',' && line_end() == 0) {
      if (text_[at_] == '"') {
        refuse(where_, "a quote stands inside a cell that does not begin with one",
               "Put the whole cell in quotes, and write the quote twice.");
        return cell;
      }
      cell.text += take();
    }
    return cell;
  }

  void quoted(CsvCell& cell) {
    take();
    for (;;) {
      if (at_ >= text_.size()) {
        refuse(cell.at, "a quoted cell has no end", "The quote that opens here is not closed.");
        return;
      }
      if (text_[at_] != '"') {
        if (line_end() > 0) {
          next_line();
          cell.text += '\n';
        } else {
          cell.text += take();
        }
        continue;
      }
      const Position quote = where_;
      take();
      if (at_ >= text_.size() || text_[at_] == ',' || line_end() > 0) return;
      if (text_[at_] != '"') {
        refuse(quote, "text follows the quote that ends a cell", "A quote inside a quoted cell is written twice.");
        return;
      }
      cell.text += take();
    }
  }

  const Origin& origin_;
  std::string_view text_;
  Diagnostics& out_;
  std::size_t at_ = 0;
  Position where_{1, 1};
  bool good_ = true;
};

}  // namespace

std::vector<CsvRow> read_csv(const Origin& origin, Diagnostics& diagnostics) {
  return Scanner(origin, diagnostics).rows();
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace orrery
