#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/lifecycle_file.hpp"

namespace orrery {

/// Writes the --log of `orrery run`: the events of the run, and its failure, once, however early it comes. Does nothing
/// until it is opened.
class RunLog {
 public:
  /// Requires that the file may be written: it is no input, and its folder exists. Among processes that share it one
  /// `begins` it; the others only add their failure. Throws Error where it cannot be opened.
  void open(const std::optional<std::string>& path, bool begins);
  /// Others report failures from here on.
  void leave_to_others();
  /// Null where there is no log, or where another process begins it.
  [[nodiscard]] LifecycleHooks* hooks() { return file_ ? &file_->hooks() : nullptr; }
  /// Reports a failure after which the run may go on. Where a process was killed in the middle of a line, this and
  /// `failed` begin a new one.
  void survived(const std::string& what);
  /// Reports a failure unless the run has reported it itself. A log that cannot be written hides no failure.
  void failed(const std::string& what) noexcept;

 private:
  std::optional<std::string> path_;
  std::unique_ptr<LifecycleFile> file_;
};

}  // namespace orrery
