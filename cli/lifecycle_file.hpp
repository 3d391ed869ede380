#pragma once

#include <memory>
#include <string>

#include "core/record/lifecycle.hpp"

namespace orrery {

/// The file of --log. Every event is a line, written at once, so that the file holds what happened before a failure.
/// Several processes that share it each append.
class LifecycleFile {
 public:
  enum class Mode : std::uint8_t { create, append };
  /// Throws Error where the file cannot be opened.
  explicit LifecycleFile(std::string path, Mode mode = Mode::create);
  ~LifecycleFile();
  LifecycleFile(const LifecycleFile&) = delete;
  LifecycleFile& operator=(const LifecycleFile&) = delete;

  /// A write that fails throws Error.
  [[nodiscard]] LifecycleHooks& hooks() { return *hooks_; }
  /// Whether the hooks were told of a failure.
  [[nodiscard]] bool told_failure() const { return told_failure_; }

 private:
  void write(const std::string& line);

  std::string path_;
  int file_;
  bool told_failure_ = false;
  std::unique_ptr<LifecycleHooks> hooks_;
};

}  // namespace orrery
