#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "validate/measured_run.hpp"
#include "validate/program_habits.hpp"

namespace orrery {

struct NamedModel {
  std::optional<ModelSpec> model;
  std::string reason;               ///< of having none
  std::vector<std::string> filled;  ///< columns whose empty cells a rule filled
};

/// The model of a row. Where the model cell names a shipped model whose shape a table cannot state (mixtures, latent
/// attention, head widths of their own), it is that model; otherwise it is a decoder whose family follows from the
/// activation. Its sizes are those of the row wherever the row states them.
[[nodiscard]] NamedModel model_of(const MeasuredRun&, const ProgramHabits&, const Library&);

}  // namespace orrery
