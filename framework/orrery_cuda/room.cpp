#include "framework/framework.hpp"
#include "framework/own_executor.hpp"

// Orrery's own executor on GPUs. It runs every plan: what the device has no kernel for, the host computes. There are no
// launch files, since the plan is one. What `orrery calibrate --backend cuda` measured of a GPU is this program's
// alone, and holds its costs, so no other software's are added.

namespace orrery {

Framework orrery_cuda() {
  return {.name = own_gpu_executor,
          .title = "orrery run --backend cuda",
          .software = own_gpu_executor,
          .abilities = "attention=unfused,flash",  // all that there is
          .rules = {{"", "", "NCCL takes its own algorithm for each collective", "plan.collective_algorithm",
                     [](const PlannedRun& run) { return !run.plan.collective_algorithm; }}},
          .abilities_source = "exec/device/nccl_transport.cpp"};
}

}  // namespace orrery
