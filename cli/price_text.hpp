#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/common.hpp"
#include "sim/cost/derivation.hpp"

namespace orrery {

/// Operations of one step that are alike: the same kind, shape and price.
struct ExplainedOperation {
  std::string kind;                 ///< name_of(Operation): "gemm", "all_reduce tensor"
  std::string what;                 ///< with its shape, as the Program's text has it
  std::vector<std::string> blocks;  ///< in which it stands
  double runs = 0.0;                ///< in a step, mean over ranks
  DerivedNumber price;
};

/// The operations of kind `wanted`, or of "all", with the most expensive together first. A kind that the Program does
/// not have is an input error (code cli.explain-op).
[[nodiscard]] std::vector<ExplainedOperation> explain_operations(const LoadedPlan&, const std::string& wanted);

/// For people: each price as a tree of the numbers that it was computed from, then a list of the named sources.
[[nodiscard]] std::string prices_text(const std::vector<ExplainedOperation>&, const LoadedPlan&, const Library&);
/// The same as JSON: `operations` with `kind`, `what`, `blocks`, `runs` and `price` (`name`, `value` in base units,
/// `unit`, `by`, `source`, `where`, `from`), and `sources`.
[[nodiscard]] nlohmann::ordered_json prices_json(const std::vector<ExplainedOperation>&, const LoadedPlan&,
                                                 const Library&);

}  // namespace orrery
