#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/run/storage.hpp"

namespace orrery {

/// What a rank is doing, written by its thread and read when something failed.
struct Progress {
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::atomic<std::uint64_t> step{0};        ///< 0: setup
  std::atomic<std::uint32_t> current{none};  ///< running number in the list
  std::atomic<std::uint32_t> completed{none};
};

/// Nanoseconds of the clock that all ranks share.
[[nodiscard]] std::int64_t now_ns();

/// Carries out one rank's ops: kernels and collectives on the buffers of its
/// storage.  Used by one thread.
class RankRunner {
 public:
  RankRunner(const Program&, const Workload&, const DataSource&, Communicator&, Rank, bool poison);

  /// When an op started (after waiting for partners) and ended.
  struct Times {
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  /// `step` is that of data and dropout; 0 in setup.
  Times run(const OpRun&, std::uint64_t step);

  /// Waits for all ranks; counts no bytes.
  void barrier();

  [[nodiscard]] const Storage& storage() const { return storage_; }
  [[nodiscard]] const Communicator& communicator() const { return communicator_; }
  [[nodiscard]] std::uint64_t outside_bytes() const { return kernel_scratch_.bytes() + collective_scratch_.bytes(); }
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] const Progress& progress() const { return progress_; }

 private:
  void compute(const OpRun&, const Compute&, std::uint64_t step);
  std::int64_t collective(const OpRun&, const Collective&, std::int64_t ready);
  std::int64_t exchange(const OpRun&, const Exchange&, std::int64_t ready);
  void copy(const OpRun&);
  [[nodiscard]] const View& view(const OpRun& run, std::uint32_t i) const {
    return run.block->views[run.op->views.first + i];
  }
  [[nodiscard]] std::byte* address(const OpRun&, const View&) const;
  [[nodiscard]] Place place_of(const OpRun&, const View&) const;

  struct GroupHere {
    std::vector<Rank> ranks;
    std::optional<Peer> peer;  ///< of this rank
  };

  const Program& program_;
  const Workload& workload_;
  const DataSource& data_;
  Communicator& communicator_;
  Rank rank_;
  std::vector<GroupHere> groups_;
  std::vector<Rank> world_;
  Storage storage_;
  KernelScratch kernel_scratch_;
  CollectiveScratch collective_scratch_;
  std::vector<Operand> operands_;
  std::vector<MemoryView> memory_views_;
  std::vector<Message> messages_;
  std::vector<Piece> pieces_;
  Progress progress_;
};

}  // namespace orrery
