#include "exec/comm/tcp.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace orrery::tcp {
namespace {

Socket fresh() { return Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

/// Whether the socket is ready in time.
bool ready(const Socket& s, short what, Clock::time_point until) {
  for (;;) {
    pollfd wait{s.number(), what, 0};
    const int left = milliseconds_until(until);
    const int code = poll(&wait, 1, left);
    if (code > 0) return true;
    if (code == 0 && left == 0) return false;
    if (code < 0 && errno != EINTR) throw Gone(std::strerror(errno));
  }
}

}  // namespace

int milliseconds_until(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

std::optional<sockaddr_in> address_of(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) return std::nullopt;
  sockaddr_in found{};
  std::memcpy(&found, list->ai_addr, sizeof found);
  freeaddrinfo(list);
  return found;
}

bool is_loopback(const sockaddr_in& at) { return ntohl(at.sin_addr.s_addr) >> 24 == 127; }

std::optional<sockaddr_in> own_address_towards(const sockaddr_in& to) {
  // Connecting a datagram socket gives it its own address, and sends nothing.
  const Socket s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = to;
  if (at.sin_port == 0) at.sin_port = htons(9);
  if (connect(s.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return std::nullopt;
  at = own_address(s);
  at.sin_port = 0;
  return at;
}

Socket listen_at(const sockaddr_in& wanted) {
  Socket s = fresh();
  if (s.number() < 0) return s;
  const int on = 1;
  setsockopt(s.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto bound = [&](const sockaddr_in& at) {
    return bind(s.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  };
  bool good = bound(wanted);
  if (!good && errno == EADDRNOTAVAIL) {
    if (auto own = own_address_towards(wanted)) {
      own->sin_port = wanted.sin_port;
      good = bound(*own);
    }
  }
  if (!good || listen(s.number(), 1024) != 0) {
    const int failure = errno;
    s = Socket();
    errno = failure;
  }
  return s;
}

sockaddr_in own_address(const Socket& s) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  getsockname(s.number(), reinterpret_cast<sockaddr*>(&at), &size);
  return at;
}

Socket connected(const sockaddr_in& to, Clock::time_point until) {
  Socket s = fresh();
  if (s.number() < 0) return s;
  if (connect(s.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return s;
  int failure = errno;
  if (failure == EINPROGRESS) {
    if (ready(s, POLLOUT, std::min(until, Clock::now() + std::chrono::seconds(2)))) {
      socklen_t size = sizeof failure;
      getsockopt(s.number(), SOL_SOCKET, SO_ERROR, &failure, &size);
      if (failure == 0) return s;
    } else {
      failure = ETIMEDOUT;
    }
  }
  s = Socket();
  errno = failure;
  return s;
}

void send_all(const Socket& s, const void* data, std::size_t bytes, Clock::time_point until) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(s.number(), at, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
      throw Gone(std::strerror(errno));
    } else if (!ready(s, POLLOUT, until)) {
      throw Gone("time is over");
    }
  }
}

void receive_all(const Socket& s, void* data, std::size_t bytes, Clock::time_point until) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(s.number(), at, bytes, 0);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      throw Gone("it has closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      throw Gone(std::strerror(errno));
    } else if (!ready(s, POLLIN, until)) {
      throw Gone("time is over");
    }
  }
}

}  // namespace orrery::tcp
