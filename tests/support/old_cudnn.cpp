#include <cstddef>

// A libcudnn.so.9 of a version that attention cannot use.
extern "C" std::size_t cudnnGetVersion() { return 90100; }
