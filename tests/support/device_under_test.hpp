#pragma once

#include <memory>

#include "exec/device/device.hpp"

namespace orrery::test {

/// The GPU that this test program is to use; null in programs that test on the host.
[[nodiscard]] Device* gpu_under_test();

}  // namespace orrery::test
