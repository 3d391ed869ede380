#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "exec/comm/socket_communicator.hpp"

namespace orrery {

/// Answers GET /metrics at a port of 127.0.0.1, which no other host reaches, on a thread of its own. It speaks as much
/// of HTTP/1.0 as that needs, and hears one connection after the other, each for a second at most.
class MetricsServer {
 public:
  /// Throws Error where the port cannot be had.
  explicit MetricsServer(std::uint16_t port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// What is answered from now on.
  void set(std::string text);

 private:
  void serve();
  void answer(const Socket&);

  Socket listens_;
  std::mutex mutex_;
  std::string text_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace orrery
