#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "exec/comm/socket_communicator.hpp"

namespace orrery::tcp {

// Connections over IPv4 that never wait beyond a given instant. Sockets are non-blocking and closed in programs that
// this one starts.

using Clock = std::chrono::steady_clock;

/// The other side has closed, or time is over. The text says which, but not who; the caller adds that.
class Gone : public Error {
 public:
  using Error::Error;
};

/// Returns 0 once it is over.
[[nodiscard]] int milliseconds_until(Clock::time_point);

/// Empty where the name or the port is not known.
[[nodiscard]] std::optional<sockaddr_in> address_of(const std::string& host, const std::string& port);
/// Whether the address is of the host itself, where no other host reaches it.
[[nodiscard]] bool is_loopback(const sockaddr_in&);

/// This host's own address on the way to another; empty where no way leads there. Sends nothing.
[[nodiscard]] std::optional<sockaddr_in> own_address_towards(const sockaddr_in&);

/// Listens at an address of this host (port 0: any), and at no other. Where the address is none of this host's own, as
/// behind a router that translates addresses, it listens at the one on the way there. Where the socket is empty, errno
/// says what is wrong.
[[nodiscard]] Socket listen_at(const sockaddr_in&);
/// This side's address and port.
[[nodiscard]] sockaddr_in own_address(const Socket&);

/// Returns no socket, and the reason in errno, where nobody accepts it within two seconds or until then.
[[nodiscard]] Socket connected(const sockaddr_in& to, Clock::time_point until);

/// Sends all bytes, or throws Gone.
void send_all(const Socket&, const void* data, std::size_t bytes, Clock::time_point until);
void receive_all(const Socket&, void* data, std::size_t bytes, Clock::time_point until);

}  // namespace orrery::tcp
