#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/library.hpp"
#include "serve/engine_costs.hpp"
#include "serve/serving_load.hpp"
#include "serve/serving_memory.hpp"
#include "serve/serving_plan.hpp"

namespace orrery {

/// A cost of an engine as its file has it: the value, and the prior that fits begin with.
struct EngineFigure {
  EngineCost cost = EngineCost::weights;
  double value = 1.0;
  double prior = 1.0;
  double spread = 0.0;  ///< of the logarithm around the prior's; 0: the value is not fitted
  friend bool operator==(const EngineFigure&, const EngineFigure&) = default;
};

/// Words of choices that an engine may refuse: "pipeline", "attention-dp", and so on.
[[nodiscard]] const std::vector<std::string_view>& refusable_choices();

/// Something that an engine does not do.
struct EngineRefusal {
  std::string what;     ///< one of refusable_choices()
  std::string because;  ///< the reason
  std::string instead;  ///< the nearest choice
  friend bool operator==(const EngineRefusal&, const EngineRefusal&) = default;
};

/// A serving engine: a row of models/serving/engines.toml.
struct Engine {
  std::string name, title, source;
  BatchRule batch;
  MemoryRule memory;
  std::vector<WeightFormat> formats;
  bool kv_fp8 = true;  ///< it can keep keys in fp8
  std::vector<EngineFigure> own;
  std::vector<EngineRefusal> refuses;
  EngineCosts costs;  ///< of all engines, and its own
  friend bool operator==(const Engine&, const Engine&) = default;
};

/// The engines, and the costs that they share.
struct EngineTable {
  std::vector<EngineFigure> shared;
  std::vector<Engine> engines;
  /// Null where none is called so.
  [[nodiscard]] const Engine* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  /// Puts the values of all figures into the engines' costs.
  void set_costs();
};

/// The shipped table, models/serving/engines.toml. Codes: those of the TOML reader; serve.engines (a cost stands twice,
/// or in neither place)
[[nodiscard]] std::optional<EngineTable> read_engines(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<EngineTable> parse_engines(std::string text, std::string name, Diagnostics&);
[[nodiscard]] std::filesystem::path engines_path(const Library&);

/// What the engine refuses of a plan for a model, with its reason and the nearest choice (codes serve.engine).
void check_engine(const Engine&, const ServingPlan&, const ModelSpec&, Diagnostics&);

}  // namespace orrery
