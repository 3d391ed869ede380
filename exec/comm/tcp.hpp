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

// Connections over IPv4 that never wait beyond an instant.  Sockets are non-blocking and closed in programs that this
// one starts.

using Clock = std::chrono::steady_clock;

/// The other side has closed, or time is over.  The text says which, but not who: that is the caller's to add.
class Gone : public Error {
 public:
  using Error::Error;
};

/// 0 once it is over.
[[nodiscard]] int milliseconds_until(Clock::time_point);

/// Nothing where the name or the port is not known.
[[nodiscard]] std::optional<sockaddr_in> address_of(const std::string& host, const std::string& port);
/// Of the host itself, where no other host reaches it.
[[nodiscard]] bool is_loopback(const sockaddr_in&);

/// Listens at an address of this host, or at all of them where this one is none of its own; at all with no host.  What
/// is wrong stands in errno where the socket is none.
[[nodiscard]] Socket listen_at(const std::optional<sockaddr_in>&);
[[nodiscard]] std::uint32_t port_of(const Socket&);

/// One who has come; no socket when time is over, or with errno not 0.
[[nodiscard]] Socket accepted(const Socket& listening, Clock::time_point until);
/// No socket, and why in errno, where nobody takes it within two seconds or until then.
[[nodiscard]] Socket connected(const sockaddr_in& to, Clock::time_point until);

/// All bytes, or Gone.
void send_all(const Socket&, const void* data, std::size_t bytes, Clock::time_point until);
void receive_all(const Socket&, void* data, std::size_t bytes, Clock::time_point until);

}  // namespace orrery::tcp
