#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/signalled_run.hpp"

namespace orrery::test {

/// The events of a run's --log, but for those of single operations.
///
/// The log is a pipe. So it needs no room, every event is read once, and a run whose pipe is full waits until the test
/// has read what came before.
class EventLog {
 public:
  explicit EventLog(std::string path) : path_(std::move(path)) {
    mkfifo(path_.c_str(), 0600);
    // Open for writing, too, so that it has no end while no process writes.
    pipe_ = open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    fcntl(pipe_, F_SETPIPE_SZ, 1 << 20);  // some steps of 8 ranks; less only makes the run wait
  }
  ~EventLog() { close(pipe_); }
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// All so far, in order.
  [[nodiscard]] const std::vector<nlohmann::json>& all() const { return events_; }
  [[nodiscard]] std::vector<nlohmann::json> of(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& e : events_) {
      if (e["event"] == kind) found.push_back(e);
    }
    return found;
  }
  [[nodiscard]] std::ptrdiff_t count(const std::string& kind) const {
    return std::count_if(events_.begin(), events_.end(), [&](const nlohmann::json& e) { return e["event"] == kind; });
  }

  /// Reads what has come.
  void read() {
    char part[1 << 16];
    for (ssize_t n = 0; (n = ::read(pipe_, part, sizeof part)) > 0;) {
      unread_.append(part, static_cast<std::size_t>(n));
      std::size_t from = 0;
      for (std::size_t end = 0; (end = unread_.find('\n', from)) != std::string::npos; from = end + 1) {
        take(unread_.substr(from, end - from));
      }
      unread_.erase(0, from);
    }
  }
  /// Whether the condition becomes true within two minutes, while events are read.
  [[nodiscard]] bool eventually(const std::function<bool()>& true_by_now) {
    return SignalledRun::eventually([&] { return read(), true_by_now(); }, std::chrono::seconds(120));
  }
  /// Waits until a step has ended after what has been read.
  [[nodiscard]] bool a_step_ends() {
    const std::ptrdiff_t before = count("step");
    return eventually([&] { return count("step") > before; });
  }
  /// Waits for the end of the run, for two minutes; returns its status as SignalledRun::wait does.
  [[nodiscard]] int wait(SignalledRun& run) {
    if (!eventually([&] { return run.has_ended(); })) return -1;
    read();
    return run.wait();
  }

 private:
  void take(const std::string& line) {
    for (const char* kind : {"operation", "microbatch", "collective"}) {
      if (line.rfind(std::string("{\"event\":\"") + kind + "\"", 0) == 0) return;
    }
    events_.push_back(nlohmann::json::parse(line));
  }

  std::string path_, unread_;
  int pipe_;
  std::vector<nlohmann::json> events_;
};

}  // namespace orrery::test
