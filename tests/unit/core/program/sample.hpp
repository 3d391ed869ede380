#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/program/program.hpp"

namespace orrery::test {

/// A small sound Program as text: two stages of two tensor ranks, one layer
/// each, one microbatch; sends hidden forward and its gradient back, sums over
/// the tensor group, updates.
[[nodiscard]] std::string sample_text();

/// The text with every `from` replaced by its `to`; each must occur.
[[nodiscard]] std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& changes);

/// Reads a text that must be right.
[[nodiscard]] Program parsed(const std::string& text);

}  // namespace orrery::test
