#pragma once

#include <cstdint>
#include <string>

#include "exec/comm/sha256.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {

// The first words between two processes that may belong to one job. Each shows the other that it holds the job's token
// (challenge and response, HMAC-SHA256), and neither says more to one that does not hold it:
//
//   who comes         Opening
//   who is come to    Opening
//   who comes         HMAC(token, "orrery: who comes" + its nonce + the other's)
//   who is come to    HMAC(token, "orrery: who is come to" + the same)
//
// The two texts differ, so that nobody can answer with what it was asked. The messages that follow are neither hidden
// nor sealed.

struct Opening {
  static constexpr std::uint64_t magic = 0x33767a795252524fULL;  // with the protocol's version
  std::uint64_t kind = magic;
  Digest nonce{};
  /// Makes one with a nonce of its own.
  [[nodiscard]] static Opening fresh() { return {magic, random_secret()}; }
};

[[nodiscard]] Digest proof_of_comer(const std::string& token, const Opening& comer, const Opening& host);
[[nodiscard]] Digest proof_of_host(const std::string& token, const Opening& comer, const Opening& host);

/// The whole exchange, for the process that connects. Throws tcp::Gone where the other side is no process of the job,
/// or leaves.
void prove_to_host(const Socket&, const std::string& token, tcp::Clock::time_point until);

}  // namespace orrery
