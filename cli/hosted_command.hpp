#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// What a command gave that ran inside another program.
struct HostedAnswer {
  int status = 0;           ///< cli/status.hpp
  std::string output;       ///< what it would have printed to standard output, to the byte
  std::string messages;     ///< what it would have printed to standard error
  Diagnostics diagnostics;  ///< with status_input
  std::string failure;      ///< with status_world
};

/// How far a command is; of `total` 0, `done` are seconds.
struct HostedProgress {
  std::string phase, note;
  std::uint64_t done = 0, total = 0;
};

/// A command that runs inside another program, as the module of Python runs it: what it prints is collected, its
/// mistakes are returned, no signal is caught, and it is stopped from outside. The verbs themselves do not know. A
/// process runs one at a time; others wait for it.
class HostedCommand {
 public:
  HostedCommand() = default;
  HostedCommand(const HostedCommand&) = delete;
  HostedCommand& operator=(const HostedCommand&) = delete;

  /// Runs `orrery ARGUMENTS...` on this thread, once the process runs no other.
  [[nodiscard]] HostedAnswer run(const std::vector<std::string>& arguments);
  /// Asks the command for an orderly end, as Ctrl-C does. From any thread.
  void stop() { stop_ = true; }
  /// What has come since this was asked the last time. From any thread.
  [[nodiscard]] std::optional<HostedProgress> progress();

  // For cli/, which prints, stops and tells its progress through these.
  /// The command that this process runs; null in the program `orrery`.
  [[nodiscard]] static HostedCommand* here();
  void print(std::string_view text);
  void say(std::string_view text);
  [[nodiscard]] const std::atomic<bool>& stopped() const { return stop_; }
  void show(HostedProgress);

 private:
  HostedAnswer answer_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  ///< of all that threads of the command, and the thread that waits for it, change
  std::optional<HostedProgress> progress_;
};

/// Refuses (cli.hosted) where a command is hosted: a fork copies a program of which other threads hold locks, and what
/// runs here is not the program `orrery`. `right` says what to do instead.
void refuse_hosted(const std::string& what, const std::string& right);

/// The folder of models, clusters and calibrations that is used where --data names none; empty: as the program finds
/// it. For other programs, before their first command.
void set_data_folder(const std::filesystem::path&);
[[nodiscard]] const std::filesystem::path& data_folder();

}  // namespace orrery
