#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/stage_share.hpp"
#include "sim/bound/state_costs.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// How the axes that cut blocks lie on the devices, in numbers that are equal where they lie alike: then all that
/// blocks take is equal.
using BlockLayout = std::array<std::uint32_t, block_axes.size()>;

/// What a plan's blocks take on one mesh.
struct BlockTimes {
  PerBlock<Picoseconds> span;
  PerBlock<Picoseconds> arrival;
  PerBlock<LaneTimes> lanes;
  BlockCosts::Behind behind;
};

/// What the layers of a plan cost, by case.  Those of a case that the plan has none of are those of plain ones.
struct LayerCosts {
  PerCase<const BlockCosts*> blocks{};
  PerCase<const BlockTimes*> times{};
  [[nodiscard]] const BlockCosts& plain_blocks() const { return *blocks[index(LayerCase::plain)]; }
  [[nodiscard]] const BlockTimes& plain_times() const { return *times[index(LayerCase::plain)]; }
};

/// Blocks that are lowered once for the MeshCosts of several threads.
class LoweredBlocks {
 public:
  [[nodiscard]] std::shared_ptr<const BlockCosts> find(const BlockKey&);
  void add(const BlockKey&, std::shared_ptr<const BlockCosts>);

 private:
  static constexpr std::size_t most_bytes = std::size_t{192} << 20;
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<BlockKey, std::shared_ptr<const BlockCosts>, BlockKeyHash> blocks_;
};

/// Ways in which axes lie on the devices, numbered for the MeshCosts of several threads.
class KnownLayouts {
 public:
  /// Of an axis by its size and what else tells how it lies; from 1 on.
  [[nodiscard]] std::uint32_t number_of(const std::vector<std::uint32_t>& lies);

 private:
  std::mutex mutex_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
};

/// Spans of a layer alone, which most of what bounds look at does not get beyond, and of it what does not compute.
struct LayerSpan {
  PerBlock<Picoseconds> span;
  Picoseconds beyond_busy = 0;
};

/// The costs that the bounds of one case are made of, on one mesh after the other.
///
/// Blocks are remembered whatever the mesh; their times for every way in which the axes that cut them lie on the
/// devices, which many meshes share; states and messages of the last meshes.
class MeshCosts {
 public:
  MeshCosts(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);
  /// For another thread, with the same blocks and states.
  [[nodiscard]] MeshCosts beside() const;

  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;

  /// Before anything below: the plan's mesh, placement, tensor algorithm and what else all of it depends on.
  void enter(const Plan&);
  [[nodiscard]] const CostModel& costs() const;
  /// Another number once another mesh is entered or what was handed out may be gone.
  [[nodiscard]] std::uint64_t visit() const { return visit_; }

  [[nodiscard]] const BlockLayout& block_layout() const { return on_->layout; }
  const BlockCosts& blocks_of(const Plan&, LayerCase = LayerCase::plain);
  const BlockTimes& times_of(const Plan&, LayerCase = LayerCase::plain);
  LayerSpan layer_span_of(const Plan&, LayerCase = LayerCase::plain);
  /// Of all cases that plans with these choices may have.
  LayerCosts layers_of(const Plan&);
  /// Of a model that has dense layers beside mixtures; null: of others.
  [[nodiscard]] const LayerKinds* kinds() const { return kinds_.get(); }
  /// Dense layers beside mixtures.
  [[nodiscard]] std::uint64_t dense_layers() const {
    return mixes_kinds(model) ? model.layers - mixture_count(model) : 0;
  }
  StateCosts& states_of(const Plan&);
  /// Levels of messages between pipeline rank `i` and the next, or from the last to the first.
  std::uint32_t levels_after(std::uint32_t i);
  [[nodiscard]] Picoseconds transfer(std::uint64_t bytes, std::uint32_t levels) const;

 private:
  /// A mesh, and what else prices depend on.
  struct Key {
    Mesh mesh;
    std::vector<std::uint32_t> placement;
    TensorAlgorithm tensor = TensorAlgorithm::one_d;
    std::optional<CollectiveAlgorithm> algorithm;
    std::optional<Bytes> bucket;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key&) const;
  };
  /// ZeRO stage, sequence parallelism, placement of stages and whether backward is split; bytes of a chunk of
  /// parameters.
  using StatesKey = std::pair<std::uint32_t, std::uint64_t>;
  struct OnMesh {
    std::optional<CostModel> costs;  ///< made when it is asked for: times of blocks may all be known
    std::uint32_t number = 0;        ///< of those with a placement or an algorithm; others: 0
    BlockLayout layout{};
    std::map<StatesKey, StateCosts> states;
    std::vector<std::uint32_t> boundary_levels;  ///< by rank: CostModel::pair_levels to the next
  };
  struct TimesKey {
    BlockKey block;
    BlockLayout layout{};
    std::uint64_t ranks = 0;
    std::uint32_t number = 0;
    friend bool operator==(const TimesKey&, const TimesKey&) = default;
  };
  struct TimesHash {
    std::size_t operator()(const TimesKey&) const;
  };
  [[nodiscard]] BlockLayout layout_of(const Mesh&);

  static constexpr std::size_t most_blocks = 3000;  ///< of lowered_blocks_, looked up without its lock
  static constexpr std::size_t most_times = 20000;  ///< 1 kB each
  static constexpr std::size_t most_layer_spans = 100000;
  static constexpr std::size_t most_meshes = 5000;  ///< 10 to 20 kB each

  std::shared_ptr<const LayerKinds> kinds_;
  std::shared_ptr<LoweredBlocks> lowered_blocks_;
  std::shared_ptr<KnownStates> lowered_states_;
  std::unordered_map<BlockKey, std::shared_ptr<const BlockCosts>, BlockKeyHash> blocks_;
  std::unordered_map<TimesKey, BlockTimes, TimesHash> times_;
  /// Of several threads.
  struct LayerSpans {
    std::mutex mutex;
    std::unordered_map<TimesKey, LayerSpan, TimesHash> known;
  };
  std::shared_ptr<LayerSpans> layer_spans_;
  std::unordered_map<Key, OnMesh, KeyHash> meshes_;
  mutable std::optional<CostModel> plain_costs_;  ///< of the first mesh without placement or algorithm
  mutable std::uint64_t plain_ranks_ = 0;
  std::shared_ptr<KnownLayouts> layouts_;
  OnMesh* on_ = nullptr;
  const Key* key_ = nullptr;
  std::uint32_t numbered_ = 0;
  std::uint64_t visit_ = 0;
};

}  // namespace orrery
