#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// A figure of a prediction that a lesson asks for, in a fixed unit.
enum class Measure : std::uint8_t {
  step_time,      ///< ms
  tokens_per_s,   ///< thousand
  mfu,            ///< %
  bubble,         ///< %
  exposed,        ///< ms: the compute lane waits for communication
  peak_memory,    ///< GiB: of the fullest stage at its peak; the same holds for the other memories
  weights,        ///< GiB
  gradients,      ///< GiB
  optimizer,      ///< GiB
  activations,    ///< GiB
  sent_per_rank,  ///< MiB a step, mean over ranks
  between_nodes,  ///< GiB a step that leave their node, all ranks
  collectives,    ///< that a rank takes part in during a step
};
[[nodiscard]] const std::vector<std::string_view>& measure_names();  ///< in lesson files, by enumerator
/// The name, and the unit that stands in front of the number: "step time", "ms".
[[nodiscard]] const char* label_of(Measure);
[[nodiscard]] const char* unit_of(Measure);
/// "12.3 ms".
[[nodiscard]] std::string text_of(Measure, double value);

}  // namespace orrery
