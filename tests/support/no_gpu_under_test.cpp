#include "tests/support/device_under_test.hpp"

namespace orrery::test {

Device* gpu_under_test() { return nullptr; }

}  // namespace orrery::test
