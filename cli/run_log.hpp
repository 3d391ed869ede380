#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/lifecycle_file.hpp"

namespace orrery {

/// What `orrery run` tells its --log: the events of the run, and its failure, once, however early it comes.  Does
/// nothing until it is opened.
class RunLog {
 public:
  /// Requires that the file may be written: no input, its folder there.  Of processes that share it one `begins` it;
  /// the others only add their failure.  Throws Error where it cannot be opened.
  void open(const std::optional<std::string>& path, bool begins);
  /// Failures from here on are told by others.
  void leave_to_others();
  /// Null where there is no log, or another process begins it.
  [[nodiscard]] LifecycleHooks* hooks() { return file_ ? &file_->hooks() : nullptr; }
  /// Tells of a failure unless the run has told of it itself.  A log that cannot be written hides no failure.
  void failed(const std::string& what) noexcept;

 private:
  std::optional<std::string> path_;
  std::unique_ptr<LifecycleFile> file_;
};

}  // namespace orrery
