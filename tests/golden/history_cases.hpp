#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::test {

/// A simulated step, or several jobs', by its name and the number of its history.
struct History {
  std::string name;
  std::uint64_t hash = 0;
};

/// Plays the golden plans: alone, over shared links by every rule of routes, folded and expanded, with stragglers and
/// with noise, and two at a time on one fabric.
[[nodiscard]] std::vector<History> play_histories();

/// "name hash" for each, one to a line.
[[nodiscard]] std::string histories_text(const std::vector<History>&);
[[nodiscard]] std::string histories_path();

}  // namespace orrery::test
