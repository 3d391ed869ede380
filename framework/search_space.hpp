#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/diagnostics.hpp"
#include "core/plan/limits.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "framework/framework.hpp"

// A search finds plans that a program can launch. Which program that is, a person says; otherwise it is the usual one
// on the device.

namespace orrery {

/// What a person asks a search to keep to.
struct SpaceWish {
  std::string framework = {};               ///< "torchtitan"; "any"; empty: not said
  std::optional<std::string> only = {};     ///< limits, as limits_of() reads them
  std::optional<std::string> writing = {};  ///< the LaunchWriting that the best plan is written as
};

/// What a search may decide, and for whom.
struct SearchSpace {
  SearchLimits limits;
  const Framework* framework = nullptr;  ///< who launches the plans; null: no program in particular
  bool assumed = false;                  ///< the framework is the usual one, which nobody named
  std::string not_usual = {};            ///< why the usual one cannot train the model, where that is so
};

/// The framework that the wish names, by itself or by what it writes; null where it names none.
///
/// Codes: framework.name for a framework that is not known or has no abilities, cli.export for an unknown writing
[[nodiscard]] const Framework* wished_framework(const SpaceWish&, Diagnostics&);

/// The framework that launches a training program (validate's names: "nemo"). Where no framework here launches it, or
/// none was measured on the device ("any"), it is Megatron-LM, which has most measured runs; null for "none", since
/// Orrery's own executor runs any plan.
[[nodiscard]] const Framework* usual_framework(std::string_view program);

/// The plainest plans within limits: data, pipeline, 1D tensor and expert axes, 1F1B and the like (plainest_limits).
/// Where the limits leave none of the plainest values, they hold as they are.
[[nodiscard]] SearchLimits plainest_within(const SearchLimits&);

/// The space of a search. Limits alone leave the framework open. `program` is the software that prices the plans.
///
/// Codes: those of wished_framework(), limits_of() and check_model; framework.cannot where --only and the framework
/// have no value in common
[[nodiscard]] SearchSpace search_space_of(const SpaceWish&, std::string_view program, const ModelSpec&, const Workload&,
                                          Diagnostics&);

}  // namespace orrery
