#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::test {

/// A simulated step, or that of several jobs, by its name and the hash of its history.
struct History {
  std::string name;
  std::uint64_t hash = 0;
};

/// Plays the golden plans: alone, over shared links by every rule of routes, folded and expanded, with stragglers and
/// with noise, and two at a time on one fabric.
[[nodiscard]] std::vector<History> play_histories();

/// A line "name hash" for each.
[[nodiscard]] std::string histories_text(const std::vector<History>&);
[[nodiscard]] std::string histories_path();

}  // namespace orrery::test
