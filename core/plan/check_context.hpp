#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// What the rules of a plan's check look at, and where they report mistakes.
struct CheckContext {
  const Plan& plan;
  const ModelSpec& model;
  const Workload& workload;
  Diagnostics& out;

  /// `code` without its "plan.".
  void error(const std::string& key, const char* code, std::string message, std::vector<std::string> details) const {
    out.error(plan.origin, key, std::string("plan.") + code, std::move(message), std::move(details));
  }
};

}  // namespace orrery
