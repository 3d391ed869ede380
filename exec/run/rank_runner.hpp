#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/program.hpp"
#include "exec/comm/world.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/issue.hpp"
#include "exec/run/lanes.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/progress.hpp"
#include "exec/run/recorder.hpp"
#include "exec/run/storage.hpp"

namespace orrery {

/// How ranks run their lists.
struct RankOptions {
  bool concurrent_lanes = false;  ///< a thread for each lane; otherwise one op at a time in list order
  bool poison = false;            ///< fill new and freed buffers with NaN
  bool gradient_squares = false;  ///< counts them in every step
  Storage::Room room = Storage::no_bounds;
  std::filesystem::path disk_folder = ".";
  /// Called on the op's thread before it runs.
  std::function<void(Rank, OpId, std::uint64_t step)> before_op;
  Recorder* recorder = nullptr;   ///< told of every op; may be none
  std::int64_t clock_offset = 0;  ///< nanoseconds from this host's steady clock to the clock that ranks share
};

/// The options of one rank in a run with these options.
[[nodiscard]] RankOptions rank_options(const RunOptions&);

/// An op failed; the text names it and says why.
class OpFailed : public Error {
 public:
  using Error::Error;
};

/// Lanes that a rank's list uses, by lane_number.
[[nodiscard]] std::vector<Lane> lanes_of(const Program&, Rank);

/// Threads of a rank that communicate: its own, and one for every lane where they run side by side.
[[nodiscard]] std::uint32_t ends_of(const Program&, bool concurrent_lanes);

/// What walks the lists of one rank, for whoever runs several.
class RankWalker {
 public:
  RankWalker() = default;
  RankWalker(const RankWalker&) = delete;
  RankWalker& operator=(const RankWalker&) = delete;
  virtual ~RankWalker() = default;

  /// Called once, by the rank's thread, before the first list.
  virtual void start() = 0;
  /// Runs a whole list (setup: step 0). `data_step` is the step of data and dropout. Throws OpFailed, Aborted, or what
  /// `before_op` throws.
  virtual void walk(std::uint64_t step, std::uint64_t data_step) = 0;
  /// Times of the last list's ops, by OpId; an Alloc or Free has the end of the compute op before it.
  [[nodiscard]] virtual const std::vector<OpTimes>& times() const = 0;
  /// Waits for all ranks; counts no bytes.
  virtual void barrier() = 0;

  [[nodiscard]] virtual const RankProgress& progress() const = 0;
  /// Bytes sent so far; called between lists.
  [[nodiscard]] virtual std::uint64_t sent_bytes() const = 0;
  /// What learned routing has chosen so far.
  [[nodiscard]] virtual RoutingCounts routing() const = 0;
  /// Squares of the last list's gradients, where they are counted.
  [[nodiscard]] virtual GradientSquares gradient_squares() const { return {}; }
  /// Memory that it took for the Program's buffers and in addition to them.
  [[nodiscard]] virtual RankMemory memory() const = 0;
  /// The bytes of an instance, which may be written; empty when it is not live. Called between lists.
  [[nodiscard]] virtual std::span<std::byte> find(const Instance&) = 0;
  /// Ends the spans that `find` gave; what was written into them counts.
  virtual void release_found() = 0;
};

/// Walks the lists of one rank on the host. The rank's thread uses it; that thread carries out the ops, or only issues
/// them where lanes run side by side.
class RankRunner final : public RankWalker {
 public:
  /// The rank needs one end of the world, and one more for every lane where they run side by side.
  RankRunner(const Program&, const Workload&, const DataSource&, World&, Rank, const RankOptions&);

  /// Starts the threads of lanes, where there are any.
  void start() override;

  void walk(std::uint64_t step, std::uint64_t data_step) override;
  [[nodiscard]] const std::vector<OpTimes>& times() const override { return times_; }
  void barrier() override { runners_.front()->barrier(); }

  [[nodiscard]] const Storage& storage() const { return storage_; }
  [[nodiscard]] const RankProgress& progress() const override { return progress_; }
  [[nodiscard]] std::uint64_t sent_bytes() const override;
  /// Scratch bytes; called between lists.
  [[nodiscard]] std::uint64_t outside_bytes() const;
  [[nodiscard]] RoutingCounts routing() const override;
  [[nodiscard]] GradientSquares gradient_squares() const override;
  [[nodiscard]] RankMemory memory() const override;
  [[nodiscard]] std::span<std::byte> find(const Instance& instance) override { return storage_.find(instance); }
  void release_found() override {}

 private:
  [[nodiscard]] const std::vector<Slot>& list(std::uint64_t step) const;
  void walk_serially(std::uint64_t data_step);
  void issue_all(std::uint64_t data_step);
  /// Does some work for an op; if it fails, the error names the op.
  template <class Work>
  void guarded(const OpRun&, LaneProgress&, Work);
  /// Carries out an issued op on the calling thread.
  void carry_out(std::size_t runner, const IssuedOp&);

  const Program& program_;
  World& world_;
  Rank rank_;
  RankOptions options_;
  std::vector<GroupHere> groups_;
  Storage storage_;
  Issuer issuer_;
  std::vector<Lane> lanes_;                            ///< empty: one op at a time
  std::array<std::uint32_t, lane_count> thread_of_{};  ///< by lane_number: position in lanes_
  RankProgress progress_;
  std::vector<std::unique_ptr<OpRunner>> runners_;  ///< of the rank's thread, then by lane
  std::vector<GradientSquares> squares_;            ///< by runner; empty where they are not counted
  std::vector<OpTimes> times_;                      ///< elements are written by the ops' threads
  std::unique_ptr<Lanes> threads_;                  ///< last: ends before what it uses
};

}  // namespace orrery
