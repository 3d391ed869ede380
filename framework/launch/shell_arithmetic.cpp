#include <cctype>
#include <limits>

#include "framework/launch/shell_values.hpp"

namespace orrery {
namespace {

class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}
  std::optional<std::int64_t> all() {
    const auto out = sum(0);
    blanks();
    return i_ == text_.size() ? out : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;
  void blanks() {
    while (i_ < text_.size() && (text_[i_] == ' ' || text_[i_] == '\t' || text_[i_] == '\n')) ++i_;
  }
  char sign(std::string_view signs) {
    blanks();
    if (i_ < text_.size() && signs.find(text_[i_]) != std::string_view::npos) return text_[i_++];
    return '\0';
  }
  Number sum(int depth) {
    Number left = product(depth);
    while (left) {
      const char c = sign("+-");
      if (c == '\0') return left;
      const Number right = product(depth);
      std::int64_t out = 0;
      if (!right ||
          (c == '+' ? __builtin_add_overflow(*left, *right, &out) : __builtin_sub_overflow(*left, *right, &out)))
        return std::nullopt;
      left = out;
    }
    return left;
  }
  Number product(int depth) {
    Number left = one(depth);
    while (left) {
      const char c = sign("*/%");
      if (c == '\0') return left;
      const Number right = one(depth);
      if (!right || (c != '*' && (*right == 0 || *right == -1))) return std::nullopt;
      std::int64_t out = 0;
      if (c == '*' && __builtin_mul_overflow(*left, *right, &out)) return std::nullopt;
      left = c == '*' ? out : c == '/' ? *left / *right : *left % *right;
    }
    return left;
  }
  Number one(int depth) {
    if (depth > 64) return std::nullopt;
    const char c = sign("(-+");
    if (c == '(') {
      const Number out = sum(depth + 1);
      return sign(")") == ')' ? out : std::nullopt;
    }
    if (c != '\0') {
      const Number out = one(depth + 1);
      return out && c == '-' ? Number(*out == std::numeric_limits<std::int64_t>::min() ? 0 : -*out) : out;
    }
    std::int64_t out = 0;
    const std::size_t begin = i_;
    while (i_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i_])) != 0) {
      if (__builtin_mul_overflow(out, 10, &out) || __builtin_add_overflow(out, text_[i_] - '0', &out))
        return std::nullopt;
      ++i_;
    }
    return i_ > begin ? Number(out) : std::nullopt;
  }
  std::string_view text_;
  std::size_t i_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression) { return Arithmetic(expression).all(); }

}  // namespace orrery
