#include "exec/device/stand_in.hpp"

#include "exec/device/cuda_load.hpp"
#include "exec/device/host_device.hpp"

namespace orrery {

const CudaCalls& stand_in_calls() {
  static const CudaCalls calls = {CudaCalls::current, [](std::string&) { return stand_in_devices; },
                                  [](int number) { return stand_in_module + (" " + std::to_string(number)); },
                                  [](int) -> std::unique_ptr<Device> { return std::make_unique<HostDevice>(); }};
  return calls;
}

}  // namespace orrery
