#include "sim/bound/mesh_costs.hpp"

#include <algorithm>
#include <functional>

namespace orrery {
namespace {

std::size_t mixed(std::size_t hash, std::uint64_t n) {
  hash = (hash ^ n) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

}  // namespace

MeshCosts::MeshCosts(const ModelSpec& m, const Workload& w, const ClusterSpec& c, const Calibration& k)
    : model(m),
      workload(w),
      cluster(c),
      calibration(k),
      lowered_blocks_(std::make_shared<LoweredBlocks>()),
      lowered_states_(std::make_shared<KnownStates>()),
      layer_spans_(std::make_shared<LayerSpans>()),
      layouts_(std::make_shared<KnownLayouts>()) {
  if (mixes_kinds(model)) kinds_ = std::make_shared<const LayerKinds>(model);
}

MeshCosts MeshCosts::beside() const {
  MeshCosts other(model, workload, cluster, calibration);
  other.kinds_ = kinds_;
  other.lowered_blocks_ = lowered_blocks_;
  other.lowered_states_ = lowered_states_;
  other.layer_spans_ = layer_spans_;
  other.layouts_ = layouts_;
  return other;
}

std::shared_ptr<const BlockCosts> LoweredBlocks::find(const BlockKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = blocks_.find(key);
  return known == blocks_.end() ? nullptr : known->second;
}

void LoweredBlocks::add(const BlockKey& key, std::shared_ptr<const BlockCosts> of) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t more = of->size();
  if (bytes_ + more > most_bytes) blocks_.clear(), bytes_ = 0;
  if (blocks_.try_emplace(key, std::move(of)).second) bytes_ += more;
}

std::size_t MeshCosts::KeyHash::operator()(const Key& key) const {
  std::size_t hash = static_cast<std::size_t>(key.tensor);
  for (const MeshAxis& a : key.mesh.axes)
    hash = mixed(hash, std::uint64_t{a.size} << 8 | static_cast<unsigned>(a.axis));
  for (const std::uint32_t device : key.placement) hash = mixed(hash, device);
  return hash;
}

std::size_t MeshCosts::TimesHash::operator()(const TimesKey& key) const {
  std::size_t hash = mixed(BlockKeyHash{}(key.block), key.ranks << 32 | key.number);
  for (const std::uint32_t lies : key.layout) hash = mixed(hash, lies);
  return hash;
}

void MeshCosts::enter(const Plan& plan) {
  if (key_ != nullptr && plan.mesh == key_->mesh && plan.placement == key_->placement && plan.tensor == key_->tensor &&
      plan.collective_algorithm == key_->algorithm && plan.gradient_bucket == key_->bucket) {
    return;
  }
  ++visit_;
  Key key{plan.mesh, plan.placement, plan.tensor, plan.collective_algorithm, plan.gradient_bucket};
  auto known = meshes_.find(key);
  if (known == meshes_.end()) {
    if (meshes_.size() >= most_meshes) meshes_.clear();
    const bool usual = plan.placement.empty() && !plan.collective_algorithm;
    known =
        meshes_.try_emplace(std::move(key), OnMesh{{}, usual ? 0 : ++numbered_, layout_of(plan.mesh), {}, {}}).first;
  }
  key_ = &known->first;
  on_ = &known->second;
}

std::uint32_t KnownLayouts::number_of(const std::vector<std::uint32_t>& lies) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return numbers_.try_emplace(lies, static_cast<std::uint32_t>(numbers_.size()) + 1).first->second;
}

BlockLayout MeshCosts::layout_of(const Mesh& mesh) {
  BlockLayout layout{};
  const bool aligned = is_aligned(mesh, cluster);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const std::uint32_t size = mesh.size(block_axes[i]);
    if (size == 1) continue;
    std::vector<std::uint32_t> lies = {size};
    if (aligned) {
      const std::vector<std::uint32_t> members = axis_layout(mesh, block_axes[i], cluster);
      lies.insert(lies.end(), members.begin(), members.end());
    } else {
      lies.push_back(static_cast<std::uint32_t>(mesh.stride(block_axes[i])));
      lies.push_back(0);  // no unit has so few members
    }
    layout[i] = layouts_->number_of(lies);
  }
  return layout;
}

const CostModel& MeshCosts::costs() const {
  if (on_->costs) return *on_->costs;
  if (!key_->placement.empty() || key_->algorithm) {
    return on_->costs.emplace(cluster, calibration, key_->mesh, key_->placement, key_->algorithm);
  }
  if (!plain_costs_ || plain_ranks_ != key_->mesh.size()) {
    plain_costs_.emplace(cluster, calibration, key_->mesh);
    plain_ranks_ = key_->mesh.size();
  }
  return on_->costs.emplace(*plain_costs_, key_->mesh);
}

std::uint32_t MeshCosts::levels_after(std::uint32_t i) {
  const Mesh& mesh = key_->mesh;
  const std::uint32_t p = mesh.size(Axis::pipeline);
  std::vector<std::uint32_t>& levels = on_->boundary_levels;
  while (levels.size() <= i) {
    const auto at = static_cast<std::uint32_t>(levels.size());
    const Rank here = mesh.moved(Rank{0}, Axis::pipeline, at);
    levels.push_back(costs().pair_levels({Axis::pipeline}, here, mesh.moved(here, Axis::pipeline, (at + 1) % p)));
  }
  return levels[i];
}

const BlockCosts& MeshCosts::blocks_of(const Plan& plan, LayerCase which) {
  const BlockKey key = block_key(plan, model, which);
  const auto known = blocks_.find(key);
  if (known != blocks_.end()) return *known->second;
  if (blocks_.size() >= most_blocks) blocks_.clear(), ++visit_;
  std::shared_ptr<const BlockCosts> of = lowered_blocks_->find(key);
  if (!of) {
    of = std::make_shared<const BlockCosts>(model, workload, plan, which, costs());
    lowered_blocks_->add(key, of);
  }
  return *blocks_.try_emplace(key, std::move(of)).first->second;
}

const BlockTimes& MeshCosts::times_of(const Plan& plan, LayerCase which) {
  const TimesKey key{block_key(plan, model, which), on_->layout, plan.mesh.size(), on_->number};
  const auto known = times_.find(key);
  if (known != times_.end()) return known->second;
  if (times_.size() >= most_times) times_.clear(), ++visit_;
  const BlockCosts& of = blocks_of(plan, which);
  const BlockCosts::Prices prices = of.prices(costs());
  const bool concurrent = cluster.device.concurrent_lanes;
  return times_
      .try_emplace(key, BlockTimes{of.spans(prices, concurrent), of.arrival_spans(prices, concurrent), of.lanes(prices),
                                   of.behind(prices)})
      .first->second;
}

LayerSpan MeshCosts::layer_span_of(const Plan& plan, LayerCase which) {
  const TimesKey key{block_key(plan, model, which), on_->layout, plan.mesh.size(), on_->number};
  const bool usual = on_->number == 0;  // others are numbered thread by thread
  if (usual) {
    const std::lock_guard<std::mutex> lock(layer_spans_->mutex);
    const auto at = layer_spans_->known.find(key);
    if (at != layer_spans_->known.end()) return at->second;
  }
  const BlockCosts& of = blocks_of(plan, which);
  LayerSpan found{of.layer_spans(of.prices(costs()), cluster.device.concurrent_lanes), 0};
  found.beyond_busy = std::max<Picoseconds>(
      0, found.span.layer_forward - of.busy().layer_forward + found.span.layer_backward - of.busy().layer_backward);
  if (!usual) return found;
  const std::lock_guard<std::mutex> lock(layer_spans_->mutex);
  if (layer_spans_->known.size() >= most_layer_spans) layer_spans_->known.clear();
  layer_spans_->known.try_emplace(key, found);
  return found;
}

LayerCosts MeshCosts::layers_of(const Plan& plan) {
  LayerCosts out;
  // A look may make room and take back what an earlier one gave.
  for (std::uint64_t before = visit_ + 1; before != visit_;) {
    before = visit_;
    const auto enter = [&](LayerCase which) {
      out.times[index(which)] = &times_of(plan, which);
      out.blocks[index(which)] = &blocks_of(plan, which);
    };
    enter(LayerCase::plain);
    out.times.fill(out.times.back());
    out.blocks.fill(out.blocks.back());
    if (plan.recompute_layers) enter(LayerCase::recomputed);
    if (kinds() == nullptr) continue;
    enter(LayerCase::dense);
    out.times[index(LayerCase::recomputed_dense)] = out.times[index(LayerCase::dense)];
    out.blocks[index(LayerCase::recomputed_dense)] = out.blocks[index(LayerCase::dense)];
    if (plan.recompute_layers) enter(LayerCase::recomputed_dense);
  }
  return out;
}

StateCosts& MeshCosts::states_of(const Plan& plan) {
  const StageMap map = stage_map(plan);
  // Tables are tied on one rank, or there are two of each.
  const std::uint32_t turned = map.two_way() ? 2 : map.rank(map.stages() - 1) == 0 ? 1 : 0;
  // Behind a split backward pass ZeRO-2 and 3 reduce each part's gradients by themselves, which tables lay apart.
  const std::uint32_t split = plan.zero_stage >= 2 && splits_backward(plan) ? 1 : 0;
  const StatesKey key{split * 32 + plan.zero_stage * 8 + (plan.sequence_parallel ? 4U : 0U) + turned,
                      static_cast<std::uint64_t>(plan.parameter_chunk->base())};
  const auto known = on_->states.find(key);
  if (known != on_->states.end()) return known->second;
  KnownStates::Key all{};
  for (std::size_t a = 0; a < axis_count; ++a) all[a] = plan.mesh.size(static_cast<Axis>(a));
  all[axis_count] = static_cast<std::uint32_t>(plan.tensor);
  all[axis_count + 1] = key.first;
  all[axis_count + 2] = key.second;
  // Placements may share nodes in other ways.
  const bool usual = on_->number == 0;
  return on_->states
      .try_emplace(key,
                   usual ? lowered_states_->of(all, model, workload, plan, costs())
                         : std::make_shared<LoweredStates>(model, workload, plan, costs()),
                   costs())
      .first->second;
}

Picoseconds MeshCosts::transfer(std::uint64_t bytes, std::uint32_t levels) const {
  return picoseconds(costs().transfer(Bytes::of(static_cast<double>(bytes)), levels));
}

}  // namespace orrery
