#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "planner/search.hpp"
#include "planner/shape_meshes.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What an objective compares, in its order; least is best.  For plans: exact.
/// For bounds: at most the plan's.
struct Rating {
  std::int64_t first = 0;   ///< picoseconds of a step, or bytes of the fullest rank
  std::int64_t second = 0;  ///< memory: picoseconds of a step
  friend auto operator<=>(const Rating&, const Rating&) = default;
};

[[nodiscard]] Rating rating(Objective, Picoseconds step, std::uint64_t peak_bytes);

/// Bytes that plans may fill.
struct Room {
  std::uint64_t device = 0;  ///< most_for_tensors: with more a plan does not fit
  std::uint64_t safe = 0;    ///< safe_for_tensors: with no more it does
  std::uint64_t host = 0;    ///< of a node
};

/// Plans of the space that share their outer choices: a run of numbers, and one
/// lower bound for all of them.
///
///   shape      sizes of axes and tensor algorithm
///   blocks     and microbatch size and block choice
///   mesh       and order of axes
///   schedule   and schedule with its chunks
///   plan       and stages: those of the plans, `states`, that fit and are fast enough in closed form; one plan, or
///              several whose passes are the same
///   candidate  one plan, bounded by its passes one by one: the next look is its estimate
struct Family {
  enum class Level : std::uint8_t { shape, blocks, mesh, schedule, plan, candidate };
  Rating bound;
  std::uint64_t first = 0;  ///< number of its first plan
  std::uint64_t count = 0;
  Picoseconds step = 0;    ///< the bound on the step alone
  std::uint64_t peak = 0;  ///< on memory
  Level level = Level::shape;
  std::uint32_t shape = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t block = 0;
  std::uint32_t order = 0;
  std::uint32_t schedule = 0;
  std::uint32_t split = 0;   ///< of layers into stages
  std::uint32_t state = 0;   ///< level plan: the first of them
  std::uint32_t states = 0;  ///< bit i for state `state` + i of the shape, which is plan first + state + i; 0: `count`
                             ///< of them, which have something in host memory
  std::uint64_t kind =
      0;  ///< of a candidate: the same for plans with the same schedule, chunks, pipeline, microbatches
  friend bool operator==(const Family&, const Family&) = default;
};

/// Plans that are left out together, with a lower bound on the step of each.
struct LeftOut {
  Picoseconds step = 0;
  std::uint64_t count = 0;
};

/// What comes of looking into a family: its plans are in `inside`, or left out.
struct Expansion {
  std::vector<Family> inside;
  std::vector<LeftOut> beyond;   ///< bounds above the given rating
  std::uint64_t infeasible = 0;  ///< plans that do not fit
  std::uint64_t same = 0;        ///< plans for which another number stands
};

/// Whether the counts of a plan with the fewest recomputed layers are those of another number of the space: all layers,
/// or none of them selectively.
[[nodiscard]] bool is_listed_elsewhere(const Space&, const Plan&);

/// Looks into a family of a higher level than candidate: its parts with their own
/// bounds.  Parts that cannot fit in their devices and hosts are left out; parts whose
/// bound exceeds `worst` are not looked into further.
[[nodiscard]] Expansion expand(const Family&, const Space&, const Room&, Objective, const Rating& worst, Bounder&,
                               ShapeMeshes&);

/// The families of level shape, all of the space.
[[nodiscard]] std::vector<Family> shape_families(const Space&);

}  // namespace orrery
