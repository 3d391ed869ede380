#include "cli/cut_off.hpp"

#include <string>

namespace orrery {

Diagnostics diagnosed(const CutOff& cut) {
  Diagnostics d;
  d.error("fabric.cut-off", std::string(cut.what()),
          {"Let fewer links fail, give the plan other GPUs, or take another fabric."});
  return d;
}

}  // namespace orrery
