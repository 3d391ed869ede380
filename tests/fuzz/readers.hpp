#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::test {

/// Every reader of the library behind one signature, for the fuzzers.
///
/// Whatever the bytes are, a reader returns a value or diagnostics. `read` says what else it did ("accepted although
/// there are diagnostics", "does not read back equal"); empty when all is well. Crashes are for the sanitizers.
struct FuzzedReader {
  std::string_view name;
  std::string (*read)(std::string_view bytes);
  /// Files to begin with: folders below the source tree and their file endings.
  std::vector<std::string_view> seed_folders;
  std::string_view extension;
};

[[nodiscard]] const std::vector<FuzzedReader>& fuzzed_readers();

}  // namespace orrery::test
