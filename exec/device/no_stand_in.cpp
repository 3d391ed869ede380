#include "core/base/diagnostics.hpp"
#include "exec/device/stand_in.hpp"

namespace orrery {

const CudaCalls& stand_in_calls() {
  throw Error(
      "this orrery was built without the threads that stand in for GPUs, as Python's package is; a build of the "
      "sources has them");
}

}  // namespace orrery
