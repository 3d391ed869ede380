#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// A Program that trains nothing. On every group over which another Program communicates, and for every kind of
/// collective that it runs there, it has collectives of f32 of several sizes, each `times` times in a row. Any backend
/// runs it, and its trace gives the times.
///
/// `largest` bounds the bytes of a collective's whole vector, which grows from 1 KiB in steps of 4; each vector is cut
/// into equal parts for the members. Permutes and barriers are not measured.
[[nodiscard]] Program group_program(const Program&, std::uint64_t largest, std::uint32_t times);

/// The time of a collective of one size on one group.
struct GroupTime {
  GroupId group{};
  std::uint32_t members = 0;
  Collective::Kind kind = Collective::Kind::all_reduce;
  std::uint64_t bytes = 0;  ///< of the whole vector; of an all-to-all one member's
  Seconds typical;          ///< median over runs and groups of the axes
  double spread = 0.0;      ///< (upper - lower quartile) / median
};
/// Times from traces of a group_program's steps, in the order of its list.
///
/// Where spans begin when the last member is ready, a run of a collective ends with the member for which it took
/// longest. Where waiting lies inside them (`waits_inside`: streams of a device, MPI's own collectives), it took as
/// long as on the member for which it was shortest, which is the one that came last.
[[nodiscard]] std::vector<GroupTime> group_times(const Program&, const std::vector<Trace>&, bool waits_inside);

/// Time of n bytes as latency + n / bandwidth.
///
/// Source: Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994.
struct AlphaBeta {
  Seconds latency;
  Bandwidth bandwidth;
  double error_pct = 0.0;  ///< mean of |fitted / measured - 1|
};
/// Fits points (bytes, seconds) with the least squares of relative errors; the latency is at least 0. Requires two
/// sizes or more and times above 0.
[[nodiscard]] AlphaBeta fit_alpha_beta(const std::vector<std::pair<Bytes, Seconds>>&);

/// The group's axes, "data+tensor"; for a subset with the coordinates that it keeps, "pipeline[0,3]".
[[nodiscard]] std::string group_text(const Group&);

}  // namespace orrery
