#pragma once

#include <string>

#include "cli/common.hpp"

namespace orrery {

/// Lists the frameworks with what is read and written of each.
[[nodiscard]] int show_frameworks(const CommonFlags&);
/// What one framework can launch, dimension by dimension, and its rules.
[[nodiscard]] int show_framework(const std::string& name, const CommonFlags&);

}  // namespace orrery
