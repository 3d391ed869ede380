#include "core/spec/sourced_figure.hpp"

namespace orrery {

const std::vector<std::string_view>& figure_basis_names() {
  static const std::vector<std::string_view> names{"read", "derived", "unverified", "assumed"};
  return names;
}

std::string_view name_of(FigureBasis b) { return figure_basis_names()[static_cast<std::size_t>(b)]; }

}  // namespace orrery
