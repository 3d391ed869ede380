#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery::python {

/// A model with the reference by which plan files name it.
struct NamedModel {
  ModelSpec spec;
  std::string reference;
};
/// The same of a cluster.
struct NamedCluster {
  ClusterSpec spec;
  std::string reference;
};

/// A plan with everything that it names, which does not change once it is made.
using SharedRun = std::shared_ptr<const PlannedRun>;

/// Binds models, clusters, workloads and plans: read from references and texts, written as texts.
void bind_subjects(nanobind::module_&);

}  // namespace orrery::python
