#pragma once

#include <vector>

#include "jobs/job_policy.hpp"

namespace orrery {

/// A policy that goes through all jobs in an order of its own whenever something happens, and gives GPUs to each that
/// fits into what those before it leave. A running job that gets none is stopped.
///
/// Whether a job fits is counted in GPUs. Running jobs stay where they are; a chosen job that finds no place by the
/// rule of places waits, and jobs that were stopped for it go on, in their order: without a restart where their places
/// are still free.
class PriorityPolicy : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber) override;
  void decide(ClusterState&) final;

 protected:
  /// The job's place in the order now. That of a waiting job must not change while it waits.
  [[nodiscard]] virtual JobRank rank(const ClusterState&, JobNumber) const = 0;
  /// Called before the order is made, for policies whose queues depend on time.
  virtual void look(const ClusterState&) {}

 private:
  void choose(ClusterState&);
  JobQueue waiting_;
};

}  // namespace orrery
