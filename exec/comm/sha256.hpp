#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

// For the few short messages by which ranks show each other that they hold the job's token. The code is our own: no
// library that the program links offers it, and a GPU machine without a package registry should need no more than it
// does.

using Digest = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4, section 6.2).
[[nodiscard]] Digest sha256(std::string_view message);
/// HMAC with SHA-256 (RFC 2104).
[[nodiscard]] Digest hmac_sha256(std::string_view key, std::string_view message);

/// Compares in a time that does not tell where the two differ.
[[nodiscard]] bool same_digest(const Digest&, const Digest&);
/// The bytes as a text with one character for each.
[[nodiscard]] std::string_view text_of(const Digest&);
/// "e3b0c4...".
[[nodiscard]] std::string hex_of(const Digest&);

/// A secret from the system's generator. Throws Error where the system gives none.
[[nodiscard]] Digest random_secret();

}  // namespace orrery
