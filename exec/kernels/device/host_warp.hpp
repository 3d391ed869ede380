#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "exec/kernels/convert.hpp"
#include "exec/kernels/device/host_block.hpp"
#include "exec/kernels/device/warp.hpp"

namespace orrery::device {

/// An instruction of a warp on shared memory: `bytes` of each lane, at so many bytes from the block's first.
struct SharedAccess {
  bool writes;
  std::uint32_t bytes;
  std::array<std::uint64_t, lanes_of_warp> at;
};
/// Called by several threads.
using SharedWatch = std::function<void(const SharedAccess&)>;

/// One thread's view of a block, of which it is a warp (warp.hpp says what is asked of it).
class HostWarpBlock : public HostBlock {
 public:
  template <class X>
  using PerLane = std::array<X, lanes_of_warp>;

  /// With `late`, copies are done when they are awaited, so that a wait that a body forgot shows; else at once, so that
  /// a copy begun too early shows.
  HostWarpBlock(HostTeam* team, std::uint32_t warp, std::uint64_t index, std::uint64_t blocks, std::byte* shared,
                bool late, const SharedWatch& watch)
      : HostBlock(team, warp, index, blocks, shared), late_(late), watch_(watch) {}

  [[nodiscard]] std::uint32_t warp() const { return HostBlock::thread(); }
  [[nodiscard]] std::uint32_t warps() const { return HostBlock::threads(); }
  void thread() const = delete;  // bodies on warps ask for lanes
  void threads() const = delete;

  template <class F>
  void each_lane(F f) {
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) f(lane);
  }
  void sync_lanes() {}

  template <int bytes, class F>
  void copy(F f) {
    std::array<Copy, lanes_of_warp> copies;
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) copies[lane] = f(lane);
    tell(true, bytes, [&](std::uint32_t lane) { return copies[lane].to; });
    for (const Copy& c : copies) {
      if (late_) {
        begun_.push_back({c, bytes});
      } else {
        to_shared(c, bytes);
      }
    }
  }
  void await_copies() {
    for (const Begun& b : begun_) to_shared(b.copy, b.bytes);
    begun_.clear();
  }

  template <bool turned, class F>
  void read_matrices(PerLane<Quad>& x, F f) {
    std::array<const std::uint16_t*, lanes_of_warp> rows;
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) rows[lane] = f(lane);
    tell(false, 16, [&](std::uint32_t lane) { return rows[lane]; });
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
      const std::uint32_t major = lane / 4, minor = 2 * (lane % 4);
      for (std::uint32_t m = 0; m < 4; ++m) {
        const std::uint32_t low = turned ? rows[8 * m + minor][major] : rows[8 * m + major][minor];
        const std::uint32_t high = turned ? rows[8 * m + minor + 1][major] : rows[8 * m + major][minor + 1];
        x[lane].x[m] = low | high << 16;
      }
    }
  }

  template <DType type, int n>
  void multiply_add(PerLane<Sums<n>>& c, int tile, const PerLane<Quad>& a, const PerLane<Quad>& b, int first) {
    float left[16][16], right[8][16];
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
      for (std::uint32_t i = 0; i < 8; ++i) {  // element i % 2 of register i / 2
        const std::uint32_t row = lane / 4 + (i / 2 % 2 != 0 ? 8 : 0);
        const std::uint32_t column = 2 * (lane % 4) + i % 2 + (i >= 4 ? 8 : 0);
        left[row][column] = number<type>(a[lane].x[i / 2], i % 2);
      }
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t depth = 2 * (lane % 4) + i % 2 + (i >= 2 ? 8 : 0);
        right[lane / 4][depth] = number<type>(b[lane].x[static_cast<std::uint32_t>(first) + i / 2], i % 2);
      }
    }
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const float* row = left[row_of(lane, i / 2)];
        const float* column = right[column_of(lane, 0, i)];
        float sum = 0.0F;
        for (int d = 0; d < 16; ++d) sum += row[d] * column[d];
        c[lane].x[tile][i] += sum;
      }
    }
  }

  template <class Combine>
  void over_quad(PerLane<RowPair>& x, Combine combine) {
    for (std::uint32_t first = 0; first < lanes_of_warp; first += 4) {
      for (int half = 0; half < 2; ++half) {
        const float all = combine(combine(x[first].x[half], x[first + 1].x[half]),
                                  combine(x[first + 2].x[half], x[first + 3].x[half]));
        for (std::uint32_t lane = first; lane < first + 4; ++lane) x[lane].x[half] = all;
      }
    }
  }

  template <DType type>
  [[nodiscard]] static std::uint32_t packed(float low, float high) {
    if constexpr (type == DType::bf16) return bf16_of(low) | static_cast<std::uint32_t>(bf16_of(high)) << 16;
    return f16_of(low) | static_cast<std::uint32_t>(f16_of(high)) << 16;
  }
  template <DType type, class F>
  void put_pair(F f) {
    std::array<Pair, lanes_of_warp> pairs;
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) pairs[lane] = f(lane);
    tell(true, 4, [&](std::uint32_t lane) { return pairs[lane].to; });
    for (const Pair& p : pairs) {
      const std::uint32_t both = packed<type>(p.low, p.high);
      std::memcpy(p.to, &both, sizeof both);
    }
  }
  template <class F>
  void put_chunk(F f) {
    std::array<Copy, lanes_of_warp> copies;
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) copies[lane] = f(lane);
    tell(false, 16, [&](std::uint32_t lane) { return copies[lane].from; });
    for (const Copy& c : copies) {
      if (c.there) std::memcpy(c.to, c.from, 16);
    }
  }

 private:
  struct Begun {
    Copy copy;
    std::uint32_t bytes;
  };
  static void to_shared(const Copy& c, std::uint32_t bytes) {
    if (c.there) {
      std::memcpy(c.to, c.from, bytes);
    } else {
      std::memset(c.to, 0, bytes);
    }
  }
  template <DType type>
  static float number(std::uint32_t both, std::uint32_t which) {
    const auto bits = static_cast<std::uint16_t>(both >> 16 * which);
    return type == DType::bf16 ? from_bf16(bits) : from_f16(bits);
  }
  template <class Place>
  void tell(bool writes, std::uint32_t bytes, Place place) {
    if (!watch_) return;
    SharedAccess access{writes, bytes, {}};
    const auto* first = shared<std::byte>();
    for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
      access.at[lane] = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(place(lane)) - first);
    }
    watch_(access);
  }

  bool late_;
  const SharedWatch& watch_;
  std::vector<Begun> begun_;
};

}  // namespace orrery::device
