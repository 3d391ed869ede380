#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/op.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/derivation.hpp"
#include "sim/cost/group_shape.hpp"
#include "sim/cost/nccl/nccl_model.hpp"

namespace orrery {

/// Prices the collectives that NCCL tunes, on clusters whose innermost levels NVLink joins.
///
///     T = curve(t)      t = l + s n / B of NCCL's choice
///
///     l, n / B  latency and bytes' part of its time by NCCL's own model (nccl_model.hpp)     curve  LinkCurve of the
///     node or the network s         slowdown of the link by the training program, 1 without
///
/// Levels from the inside that have the bandwidth of the innermost one form one domain, which NCCL calls a "node"
/// (trays of a rack, say). Among the other levels, the one that leaves a member least is its port. All kinds are priced
/// except all-to-all and permute, which NCCL makes of sends and receives; a barrier is an all-reduce of nothing. The
/// cluster's file may give channels for as many ranks on as many domains; otherwise they are derived. The network's
/// switches reduce where all levels that a group crosses outside domains say SHARP.
class NcclCost {
 public:
  /// Devices with an innermost bandwidth below this are not taken to be joined by NVLink.
  static constexpr Bandwidth least_nvlink = Bandwidth::of(100e9);
  [[nodiscard]] static bool applies(const ClusterSpec&, const Calibration&);

  /// Requires applies(cluster, calibration).
  NcclCost(const ClusterSpec&, const Calibration&);

  struct Price {
    NcclAlgorithm algorithm = NcclAlgorithm::ring;
    NcclProtocol protocol = NcclProtocol::simple;
    Seconds modelled;  ///< t
    Seconds time;
    Seconds moving;  ///< part of it in which the bytes move
    friend bool operator==(const Price&, const Price&) = default;
  };
  /// The price, empty for kinds that NCCL does not tune. Ring's price counts where every way that exists is excluded.
  /// Requires a group of at least two.
  [[nodiscard]] std::optional<Price> price(Collective::Kind, Bytes payload, const GroupShape&, const NcclExcluded& = {},
                                           Derivation* why = nullptr) const;
  [[nodiscard]] NcclTopology topology(const GroupShape&) const;
  /// Whether a level lies inside a domain.
  [[nodiscard]] bool is_inside(std::size_t level) const { return level < domain_; }

 private:
  NcclConstants constants_;
  std::array<Bandwidth, GroupShape::max_levels> bandwidth_{};
  std::array<bool, GroupShape::max_levels> sharp_{};  ///< switches of the level reduce
  std::vector<ChannelGraph> found_;
  std::size_t domain_ = 1;  ///< levels of a domain
  double network_ = 1.0;

  void tell(Derivation&, const NcclTopology&, const NcclChoice&, Bytes payload, const Price&) const;
};

}  // namespace orrery
