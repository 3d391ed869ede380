#include "planner/fabric_symmetry.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "sim/cost/group_shape.hpp"

namespace orrery {
namespace {

/// All routes between some GPUs.
class Routes {
 public:
  Routes(const FabricTraffic& traffic, const ClusterSpec& cluster, std::uint32_t gpus)
      : traffic_(traffic), cluster_(cluster), gpus_(gpus), route_(std::size_t{gpus} * gpus) {
    const FabricRoutes& routes = traffic.routes();
    for (std::uint32_t a = 0; a < gpus; ++a) {
      for (std::uint32_t b = 0; b < gpus; ++b) {
        if (a != b) routes.fabric->route(a, b, routes.rule, routes.seed, route_[a * gpus + b]);
      }
    }
  }

  /// Whether GPU a may be where image[a] is, for all GPUs at once.
  [[nodiscard]] bool keeps(std::span<const std::uint32_t> image) const {
    std::map<LinkId, LinkId> to, from;
    for (std::uint32_t a = 0; a < gpus_; ++a) {
      for (std::uint32_t b = 0; b < gpus_; ++b) {
        if (a == b) continue;
        if (level_between(a, b, cluster_) != level_between(image[a], image[b], cluster_)) return false;
        const std::vector<LinkId>&here = route_[a * gpus_ + b], &there = route_[image[a] * gpus_ + image[b]];
        if (here.size() != there.size()) return false;
        for (std::size_t i = 0; i < here.size(); ++i) {
          if (to.try_emplace(here[i], there[i]).first->second != there[i]) return false;
          if (from.try_emplace(there[i], here[i]).first->second != here[i]) return false;
          if (traffic_.capacity(here[i]) != traffic_.capacity(there[i])) return false;
        }
      }
    }
    return true;
  }

 private:
  const FabricTraffic& traffic_;
  const ClusterSpec& cluster_;
  std::uint32_t gpus_;
  std::vector<std::vector<LinkId>> route_;
};

class Enumeration {
 public:
  Enumeration(const FabricSymmetry& symmetry, std::uint64_t most,
              const std::function<bool(const std::vector<std::uint32_t>&)>& visit)
      : symmetry_(symmetry),
        most_(most),
        visit_(visit),
        used_(symmetry.class_of_gpu.size(), false),
        on_node_(symmetry.class_of_node.size(), 0) {}

  bool run() { return place(); }

 private:
  [[nodiscard]] bool is_first_of_its_kind(std::uint32_t gpu) const {
    const std::uint32_t node = gpu / symmetry_.gpus_of_node;
    for (std::uint32_t g = node * symmetry_.gpus_of_node; g < gpu; ++g) {
      if (!used_[g] && symmetry_.class_of_gpu[g] == symmetry_.class_of_gpu[gpu]) return false;
    }
    if (on_node_[node] > 0) return true;
    for (std::uint32_t n = 0; n < node; ++n) {
      if (on_node_[n] == 0 && symmetry_.class_of_node[n] == symmetry_.class_of_node[node]) return false;
    }
    return true;
  }

  /// The next rank.  False: stop.
  bool place() {
    if (placement_.size() == used_.size()) return visited_++ < most_ && visit_(placement_);
    for (std::uint32_t gpu = 0; gpu < used_.size(); ++gpu) {
      if (used_[gpu] || !is_first_of_its_kind(gpu)) continue;
      const std::uint32_t node = gpu / symmetry_.gpus_of_node;
      used_[gpu] = true;
      ++on_node_[node];
      placement_.push_back(gpu);
      const bool goes_on = place();
      placement_.pop_back();
      --on_node_[node];
      used_[gpu] = false;
      if (!goes_on) return false;
    }
    return true;
  }

  const FabricSymmetry& symmetry_;
  std::uint64_t most_, visited_ = 0;
  const std::function<bool(const std::vector<std::uint32_t>&)>& visit_;
  std::vector<bool> used_;
  std::vector<std::uint32_t> on_node_;
  std::vector<std::uint32_t> placement_;
};

}  // namespace

FabricSymmetry no_symmetry(std::uint32_t gpus, std::uint32_t gpus_of_node) {
  FabricSymmetry s;
  s.gpus_of_node = gpus_of_node;
  s.class_of_gpu.resize(gpus);
  s.class_of_node.resize((gpus + gpus_of_node - 1) / gpus_of_node);
  std::iota(s.class_of_gpu.begin(), s.class_of_gpu.end(), 0U);
  std::iota(s.class_of_node.begin(), s.class_of_node.end(), 0U);
  return s;
}

FabricSymmetry fabric_symmetry(const FabricTraffic& traffic, const ClusterSpec& cluster, std::uint32_t gpus) {
  const std::uint32_t of_node = std::min(traffic.fabric().spec().node.gpus, gpus);
  FabricSymmetry s = no_symmetry(gpus, of_node);
  const Routes routes(traffic, cluster, gpus);
  std::vector<std::uint32_t> image(gpus);
  for (std::uint32_t b = 1; b < gpus; ++b) {
    for (std::uint32_t a = b / of_node * of_node; a < b; ++a) {
      if (s.class_of_gpu[a] != a) continue;  // the first of its class has been tried
      std::iota(image.begin(), image.end(), 0U);
      std::swap(image[a], image[b]);
      if (!routes.keeps(image)) continue;
      s.class_of_gpu[b] = a;
      break;
    }
  }
  for (std::uint32_t b = 1; b < s.class_of_node.size(); ++b) {
    if ((b + 1) * of_node > gpus) continue;  // used in part
    for (std::uint32_t a = 0; a < b; ++a) {
      if (s.class_of_node[a] != a) continue;
      std::iota(image.begin(), image.end(), 0U);
      for (std::uint32_t g = 0; g < of_node; ++g) std::swap(image[a * of_node + g], image[b * of_node + g]);
      if (!routes.keeps(image)) continue;
      s.class_of_node[b] = a;
      break;
    }
  }
  return s;
}

bool for_each_placement(const FabricSymmetry& symmetry, std::uint64_t most,
                        const std::function<bool(const std::vector<std::uint32_t>&)>& visit) {
  return Enumeration(symmetry, most, visit).run();
}

}  // namespace orrery
