#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/library.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// A model that torchtitan can train, by its name and flavor.
struct TitanModel {
  std::string_view name;     ///< "llama3"
  std::string_view flavor;   ///< "8B"
  std::string_view shipped;  ///< "llama-3.1-8b"; of models with a shape of their own, the nearest
  /// Makes the shape out of the shipped one; null where they are equal.
  void (*shape)(ModelSpec&) = nullptr;
  /// A shipped model that differs from it in the stretch of rotary angles alone, which changes no step and no memory.
  std::string_view unstretched = {};
};

/// All that plans can describe.
[[nodiscard]] const std::vector<TitanModel>& titan_models();

/// Null where none is meant. What stands before a dot or a slash in the name ("simple_fsdp.llama3") says how it is
/// run.
[[nodiscard]] const TitanModel* titan_model_named(std::string_view name, std::string_view flavor);
/// The one with the shape of a plan's model; null where there is none.
[[nodiscard]] const TitanModel* titan_model_of(std::string_view spec_name);

/// The name that a spec with a shape of its own gets: "torchtitan-llama3-debugmodel".
[[nodiscard]] std::string own_name(const TitanModel&);

}  // namespace orrery
