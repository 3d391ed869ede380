#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

// A record of what the elements of every buffer of one rank are at some place of its list. The rules about values
// (verify_values.cpp, and the files that it calls) write and read it. Hazards are ruled out before, so values follow
// list order.

/// A set of mesh axes.
using AxisBits = std::uint16_t;

[[nodiscard]] constexpr AxisBits bit(Axis a) { return static_cast<AxisBits>(1U << index(a)); }
/// The axes with more than one rank.
[[nodiscard]] AxisBits bits(const Mesh&, const AxisList&);
[[nodiscard]] std::string names(AxisBits);
/// The axes that cut dimensions [from, to) of a shard.
[[nodiscard]] AxisBits cuts(const Program&, const Shard&, std::size_t from = 0, std::size_t to = Shard::max_dims);
/// The same without the class axes. Ranks along those run other lists, so a cut says nothing about sums (experts,
/// SUMMA).
[[nodiscard]] AxisBits sums(const Program&, const Shard&, std::size_t from, std::size_t to);
/// The axes along which ranks hold other experts of the tensor, each of which is a matrix by itself.
[[nodiscard]] AxisBits cuts_of_experts(const Program&, const ParameterSlice&);

[[nodiscard]] inline const View& view(const OpRun& run, std::uint32_t i) {
  return run.block->views[run.op->views.first + i];
}
/// The parameter that a view of a flat buffer covers, if it covers one.
[[nodiscard]] const ParameterSlice* slice_of(const Program&, const View&);

inline constexpr std::uint32_t no_block = ~std::uint32_t{0};

/// Describes a matrix that lies in blocks on a group and whose product is made step by step: the member whose block
/// this is, and the members whose blocks it is made of so far. A sum over blocks has the sum of their marks; each must
/// come once.
struct Blocks {
  std::uint32_t block = no_block;  ///< a panel, or a product with one
  std::uint32_t members = 0;       ///< of the group that has the blocks
  std::uint64_t marks = 0;
  bool complete = true;

  static std::uint64_t mark(std::uint32_t block) {
    const std::uint64_t x = (block + 1ULL) * 0x9e3779b97f4a7c15ULL;
    return (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
  }
  void add(std::uint32_t block_of_sum, std::uint32_t count) {
    marks += mark(block_of_sum);
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; i < count; ++i) all += mark(i);
    complete = marks == all;
    if (complete) marks = 0;  // the next microbatch begins anew
  }
};

/// How far a cut attention has come. Keys and their gradients know how many places they stand from their own rank,
/// along the ring of all ranks and along a narrow ring inside it. A context, a log-sum-exp and a gradient know how many
/// keys (or queries) of the whole sequence they have met. So a lost pass, part or merge shows.
struct Attended {
  std::uint64_t hops = 0, turns = 0;    ///< turns: inside the narrow ring
  std::uint64_t ranks = 1, narrow = 1;  ///< of the rings; narrow 1: there is none
  std::uint64_t met = 0, whole = 0;     ///< whole 0: not a result of attention
};

/// The last write of some elements.
struct Region {
  std::uint64_t low = 0, high = 0;
  std::uint64_t stamp = 0;  ///< number of the op that wrote it
  bool used = false;        ///< somebody has read it since
  AxisBits partial = 0;
  std::uint64_t content = 0;
  std::uint64_t origin =
      0;  ///< content whose elements these are, in another place, masked or of another type; 0: its own
  Blocks blocks;
  Attended attended;
};

struct Hash {
  std::uint64_t value = 0x9e3779b97f4a7c15ULL;
  void add(std::uint64_t x) {
    value = (value ^ x) * 0xff51afd7ed558ccdULL;
    value ^= value >> 32;
  }
};

struct InstanceHash {
  std::size_t operator()(const Instance&) const;
};

class Regions {
 public:
  Regions(Findings& f, std::uint32_t rank_class) : f_(f), p_(f.program()), rank_(representative(p_, rank_class)) {}

  [[nodiscard]] const Program& program() const { return p_; }
  /// Called before each walk.
  void begin(bool setup) { setup_ = setup; }
  [[nodiscard]] bool setup() const { return setup_; }
  /// Called before each op.
  void next_op() { ++stamp_; }
  [[nodiscard]] std::uint64_t stamp() const { return stamp_; }

  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }
  [[nodiscard]] std::vector<Region>& of(const Instance& i) { return regions_[i]; }
  [[nodiscard]] std::vector<Region>& of(const OpRun& run, const View& v) { return regions_[instance(run, v)]; }
  /// First element of the view on this rank.
  [[nodiscard]] std::uint64_t low(const View& v) const { return offset_on(p_.mesh, v, rank_); }
  [[nodiscard]] bool touches(const Region& r, const View& v) const {
    return r.low < low(v) + v.count && low(v) < r.high;
  }

  /// Whether this step has written all elements of the view.
  [[nodiscard]] bool covered(const OpRun&, const View&);
  /// How the elements of a view were made. Elements that the step has not written stand for themselves.
  [[nodiscard]] std::uint64_t content(const OpRun&, const View&);
  /// The content whose elements the view has.
  [[nodiscard]] std::uint64_t origin(const OpRun&, const View&);
  [[nodiscard]] AxisBits partial_of(const OpRun&, const View&);
  /// Where parts of what was copied are other sums, they stay so; after put().
  void copy_partials(const OpRun&, const View& from, const View& to);
  /// Records that the current op writes the view.
  void put(const OpRun&, const View&, AxisBits partial, std::uint64_t content, const Blocks& blocks = {},
           const Attended& attended = {}, std::uint64_t origin = 0);

  void wrong(const char* code, const std::string& what, const OpRun& run) {
    f_.add_run(code, what, rank_, setup_, run);
  }

 private:
  Findings& f_;
  const Program& p_;
  Rank rank_;
  bool setup_ = false;
  std::uint64_t stamp_ = 0;
  std::unordered_map<Instance, std::vector<Region>, InstanceHash> regions_;
};

}  // namespace orrery::verifying
