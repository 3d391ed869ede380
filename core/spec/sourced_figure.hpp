#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// How far a figure of a file is known. It is printed wherever the figure is.
enum class FigureBasis : std::uint8_t {
  read,        ///< in the source, which was read
  derived,     ///< follows by arithmetic from figures that were read
  unverified,  ///< recalled or second-hand, or derived from such: check the source before quoting
  assumed,     ///< a guess that no source backs; replace it by your own
};
/// The words of files, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string_view>& figure_basis_names();
[[nodiscard]] std::string_view name_of(FigureBasis);

/// A figure with where it is from.
template <class T>
struct SourcedFigure {
  T value{};
  std::string source;
  FigureBasis basis = FigureBasis::read;
  friend bool operator==(const SourcedFigure&, const SourcedFigure&) = default;
};
template <class T>
using KnownFigure = std::optional<SourcedFigure<T>>;  ///< unset: unknown

}  // namespace orrery
