#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/bound/stage_share.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What one module ("embedding", "layer", "head", with this the prediction modules) keeps and what updating it takes.
struct ModuleState {
  std::uint64_t persistent_bytes = 0;      ///< weights, gradients, masters, moments
  std::uint64_t state_bytes = 0;           ///< of them masters and moments
  std::uint64_t weight_bytes = 0;          ///< and weights
  std::uint64_t whole_weight_bytes = 0;    ///< what compute reads: ZeRO-3 gathers it
  std::uint64_t whole_gradient_bytes = 0;  ///< what compute adds to: ZeRO-2 and 3 hold it for a while; in chunks the
                                           ///< weights' memory, and none here
  Picoseconds clear = 0;
  Picoseconds clear_copy = 0;      ///< ZeRO-2 and 3, once a microbatch; where the backward pass is split: by its first
  Picoseconds clear_products = 0;  ///< part, and by that of weight gradients
  Picoseconds gather_weights = 0;  ///< ZeRO-3, before use
  Picoseconds gather_some = 0;     ///< the least of its collectives: experts come beside what computes before them
  Picoseconds norm = 0;            ///< 0 without a factor
  Picoseconds update = 0;
};

/// The update of a module whose states live in host memory.
struct HostUpdate {
  Picoseconds down = 0;    ///< gradients to the host
  Picoseconds update = 0;  ///< by the host
  Picoseconds up = 0;      ///< weights to the device: behind the update, or before each use where they live there too
  Picoseconds gather = 0;  ///< of weights that come up in parts, before each use
  Picoseconds read_states = 0, write_states = 0;  ///< of masters and moments that wait on a disk, its latency left out
  Picoseconds read_weights = 0, write_weights = 0;  ///< of weights that live there
  std::uint64_t state_bytes = 0, weight_bytes = 0;  ///< in host memory or on the disk
  std::uint64_t gradient_bytes = 0;                 ///< in host memory during the update
};

/// A collective that states need; what it takes follows from how its axes lie on the devices.
struct StateCollective {
  std::uint8_t lane = 0;
  Collective::Kind kind = Collective::Kind::all_reduce;
  Bytes payload;
  Group group;
  std::uint32_t number = 0;  ///< among those of its LoweredStates
};
using StateCollectives = std::vector<const StateCollective*>;

/// What StateCosts is made of but for how axes lie on the devices: parameters, gradients and optimizer states with one
/// ZeRO stage, lowered once for all orders of axes by the same functions as whole Programs.
///
/// Several threads may ask at once.
class LoweredStates {
 public:
  struct OfModule {
    ModuleState state;  ///< without gather_weights and gather_some
    StateCollectives gather;
  };
  struct OfHost {
    HostUpdate update;  ///< without gather
    StateCollectives gather;
  };
  struct HostModules {
    OfHost embedding, layer, dense_layer, head;
  };
  /// What a bucket sends; `reduce_first` behind the first part of a split backward pass.
  struct Messages {
    StateCollectives reduce, reduce_first, combine, gather;
    StateCollectives sum_pipes;  ///< behind all else, of the outermost pair
    friend bool operator==(const Messages&, const Messages&) = default;
  };
  struct Bucket {
    bool head = false;
    bool embedding = false;
    std::uint32_t layers = 0;
    std::uint32_t dense = 0;
    const Messages* messages = nullptr;  ///< the same for buckets that send alike
  };

  /// As StateCosts says of the plan.  `costs` prices kernels; its mesh does not matter.
  LoweredStates(const ModelSpec&, const Workload&, const Plan&, const CostModel& costs);
  ~LoweredStates();

  OfModule embedding, layer, dense_layer, head;
  std::uint64_t scalar_bytes = 0;
  std::uint32_t zero = 0;
  std::uint32_t pipeline = 1;
  bool factor = false;
  bool head_apart = false;
  StateCollectives norm, tied;

  /// StateCosts::buckets; remembered.
  [[nodiscard]] const std::vector<Bucket>& buckets(const StageShare&);
  /// StateCosts::host_updates; remembered.
  [[nodiscard]] const HostModules& host_updates(const CostModel&);
  /// Gives up the lowering that buckets are built in, by far most of what this holds; it is made again for a bucket
  /// that is not known.
  void rest();

 private:
  struct Lowering;
  [[nodiscard]] const StateCollective* known(const StateCollective&);
  [[nodiscard]] StateCollectives collectives_of(const Program&, const Block&);

  ModelSpec model_;  // copies: whoever asked first may be gone before those who share this
  Workload workload_;
  Plan plan_;
  std::mutex mutex_;  ///< of what follows
  std::unique_ptr<Lowering> lowering_;
  std::deque<StateCollective> collectives_;
  std::deque<Messages> messages_;
  std::map<std::uint64_t, std::vector<Bucket>> buckets_;
  std::optional<HostModules> host_updates_;
};

/// LoweredStates for the MeshCosts of several threads.
class KnownStates {
 public:
  /// Tensor algorithm, sizes of axes, and what else of a plan decides states but its bucket.
  using Key = std::array<std::uint64_t, axis_count + 3>;
  [[nodiscard]] std::shared_ptr<LoweredStates> of(const Key&, const ModelSpec&, const Workload&, const Plan&,
                                                  const CostModel&);

 private:
  static constexpr std::size_t most = 4000;         ///< a few kB each
  static constexpr std::size_t most_lowered = 128;  ///< up to 50 kB each
  struct Entry {
    Bytes bucket;
    std::shared_ptr<LoweredStates> states;
  };
  std::mutex mutex_;
  std::map<Key, Entry> known_;
  std::deque<std::shared_ptr<LoweredStates>> lowered_;  ///< that do not rest
};

}  // namespace orrery
