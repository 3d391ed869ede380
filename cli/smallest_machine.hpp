#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/search_question.hpp"

namespace orrery {

/// A number of devices that was tried, and the best plan's memory there.
struct TriedMachine {
  std::uint32_t gpus = 0;
  bool fits = false;
  std::string memory;  ///< "68.1 GiB of the 79.6 GiB of a device"; of the best plan that did not fit, where none did
};

/// The fewest devices of a cluster's kind on which a plan answers a question: 1, 2, 4 and so on are tried, and last
/// `most`.
struct SmallestMachine {
  std::vector<TriedMachine> tried;
  std::optional<SearchTask> task;  ///< on the first number that fits; else on the last one tried
  bool complete = true;            ///< false: interrupted
};
[[nodiscard]] SmallestMachine smallest_machine(const SearchQuestion&, const SearchOptions&, std::uint32_t most);

[[nodiscard]] std::string smallest_text(const SmallestMachine&);
[[nodiscard]] nlohmann::ordered_json smallest_json(const SmallestMachine&);

}  // namespace orrery
