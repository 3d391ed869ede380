#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::test {

/// Every reader of the library behind one signature, for the fuzzers.
///
/// A reader must return a value or diagnostics for any bytes. `read` returns an empty text when it does, and otherwise
/// what the reader did instead ("accepted although there are diagnostics"). The sanitizers find crashes.
struct FuzzedReader {
  std::string_view name;
  std::string (*read)(std::string_view bytes);
  /// Files to begin with: folders below the source tree and their file endings.
  std::vector<std::string_view> seed_folders;
  std::string_view extension;
};

[[nodiscard]] const std::vector<FuzzedReader>& fuzzed_readers();

}  // namespace orrery::test
