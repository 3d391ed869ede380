#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// A program that runs beside this one. Its output goes to files. One that is still there when the object goes is
/// killed, and one that is still there when the thread ends that started it, as with its program, gets SIGTERM.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& out, std::filesystem::path err);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Its exit status, or 128 + the signal that ended it, or -1 where that is not known; empty while it runs.
  [[nodiscard]] std::optional<int> ended();
  [[nodiscard]] int wait();
  void signal(int) const;
  /// What it wrote to its error output.
  [[nodiscard]] std::string errors() const;

 private:
  [[nodiscard]] std::optional<int> status(int options);
  pid_t process_ = -1;
  std::filesystem::path err_;
  std::optional<int> status_;
};

}  // namespace orrery
