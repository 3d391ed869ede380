#include "cli/metrics_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "exec/comm/tcp.hpp"

namespace orrery {
namespace {

constexpr int look_ms = 50;  ///< how soon an end is noticed
constexpr auto longest_hearing = std::chrono::seconds(1);
constexpr std::size_t longest_request = 8192;

std::string response(const char* status, const std::string& body) {
  return fmt::format(
      "HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      status, body.size(), body);
}

}  // namespace

MetricsServer::MetricsServer(std::uint16_t port) {
  const std::string text = std::to_string(port);
  if (const auto address = tcp::address_of("127.0.0.1", text)) listens_ = tcp::listen_at(*address);
  if (listens_.number() < 0) {
    throw Error(fmt::format("--metrics: cannot listen at 127.0.0.1:{}: {}", text, std::strerror(errno)));
  }
  thread_ = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
  ends_ = true;
  thread_.join();
}

void MetricsServer::set(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void MetricsServer::serve() {
  while (!ends_) {
    pollfd waits{listens_.number(), POLLIN, 0};
    if (poll(&waits, 1, look_ms) <= 0) continue;
    const Socket caller(accept4(listens_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (caller.number() >= 0) answer(caller);
  }
}

void MetricsServer::answer(const Socket& caller) {
  const auto until = tcp::Clock::now() + longest_hearing;
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < longest_request) {
    pollfd waits{caller.number(), POLLIN, 0};
    if (ends_ || poll(&waits, 1, std::min(look_ms, tcp::milliseconds_until(until))) < 0 || tcp::Clock::now() >= until) {
      return;
    }
    char part[1024];
    const ssize_t n = recv(caller.number(), part, sizeof part, 0);
    if (n == 0) return;
    if (n > 0) request.append(part, static_cast<std::size_t>(n));
  }
  const std::string wanted = request.substr(0, request.find('\r'));
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = text_;
  }
  const std::string answer = wanted.rfind("GET /metrics ", 0) == 0 ? response("200 OK", text)
                             : wanted.rfind("GET ", 0) == 0 ? response("404 Not Found", "figures are at /metrics\n")
                                                            : response("405 Method Not Allowed", "GET only\n");
  try {
    tcp::send_all(caller, answer.data(), answer.size(), until);
    shutdown(caller.number(), SHUT_WR);
  } catch (const tcp::Gone&) {
    // It did not want the answer.
  }
}

}  // namespace orrery
