// One reader as a libFuzzer target; ORRERY_FUZZED_READER names it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const orrery::test::FuzzedReader& reader : orrery::test::fuzzed_readers()) {
    if (reader.name != ORRERY_FUZZED_READER) continue;
    const std::string fault = reader.read({reinterpret_cast<const char*>(data), size});
    if (fault.empty()) return 0;
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  std::abort();  // no such reader
}
