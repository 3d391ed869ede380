#include "exec/comm/sha256.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr std::size_t block_bytes = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, section 4.2.2).
constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void put_big_endian(char* to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
}

/// Names are those of FIPS 180-4.
void compress(State& state, const char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    for (std::size_t i = 0; i < 4; ++i) w[t] = w[t] << 8 | static_cast<std::uint8_t>(block[4 * t + i]);
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[t - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[t] + w[t];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

Digest sha256(std::string_view message) {
  // These are the square roots of the first 8 primes, likewise (section 5.3.3).
  State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  // Appends a bit 1, zeros, and the length in bits (section 5.1.1).
  std::string padded(message);
  padded += static_cast<char>(0x80);
  while (padded.size() % block_bytes != block_bytes - 8) padded += '\0';
  padded.resize(padded.size() + 8);
  put_big_endian(padded.data() + padded.size() - 8, std::uint64_t{message.size()} * 8, 8);
  for (std::size_t at = 0; at < padded.size(); at += block_bytes) compress(state, padded.data() + at);
  Digest out{};
  std::array<char, sizeof(Digest)> bytes{};
  for (std::size_t i = 0; i < state.size(); ++i) put_big_endian(bytes.data() + 4 * i, state[i], 4);
  std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::string block(block_bytes, '\0');
  if (key.size() > block_bytes) {
    const Digest short_key = sha256(key);
    block.replace(0, short_key.size(), text_of(short_key));
  } else {
    block.replace(0, key.size(), key);
  }
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  const Digest first = sha256(inner.append(message));
  return sha256(outer.append(text_of(first)));
}

bool same_digest(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string_view text_of(const Digest& d) { return {reinterpret_cast<const char*>(d.data()), d.size()}; }

std::string hex_of(const Digest& d) {
  std::string out;
  for (const std::uint8_t byte : d) out += fmt::format("{:02x}", byte);
  return out;
}

Digest random_secret() {
  Digest out{};
  ssize_t got = 0;
  do {
    got = getrandom(out.data(), out.size(), 0);
  } while (got < 0 && errno == EINTR);
  // So few bytes come whole or not at all.
  if (got != static_cast<ssize_t>(out.size())) {
    throw Error(fmt::format("the system gives no random numbers: {}", std::strerror(errno)));
  }
  return out;
}

}  // namespace orrery
