#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/net/fabric.hpp"

namespace orrery {

/// A fabric and how messages find their way through it.
struct FabricRoutes {
  const Fabric* fabric = nullptr;
  PathRule rule = PathRule::by_destination;
  std::uint64_t seed = 0;               ///< of hashed routes
  std::optional<LinkKind> faster = {};  ///< links of this kind take a tenth less time for their bytes
};

/// Who sends to whom in a collective, whatever the bytes.
struct CollectivePattern {
  Collective::Kind kind = Collective::Kind::all_gather;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  std::uint32_t distance = 0, width = 0;  ///< of a permute
  bool in_switches = false;               ///< an all-reduce whose sums NVLink's switches make
  friend auto operator<=>(const CollectivePattern&, const CollectivePattern&) = default;
};

/// Bytes that one GPU sends another.
struct GpuTraffic {
  std::uint32_t from = 0, to = 0;  ///< GPUs of the fabric
  double payload = 0.0;            ///< bytes, or bytes for each byte of a payload
  friend bool operator==(const GpuTraffic&, const GpuTraffic&) = default;
};

/// What a communication sends over links, in proportion to the link that carries most.
struct LinkShares {
  std::vector<LinkId> links;    ///< ascending
  std::vector<double> weights;  ///< of each: up to 1
  double most = 0.0;            ///< bytes on the busiest link for each byte of payload
};

/// What the communications of a Program send over the links of a fabric.
class FabricTraffic {
 public:
  /// shares() throw CutOff, which names ranks, where failed links leave no way.
  ///
  /// Rank r runs on GPU placement[r] of the fabric; empty: GPU r.  All references outlive it.
  FabricTraffic(const FabricRoutes&, const Program&, const CostModel&, std::span<const std::uint32_t> placement);

  /// One collective among `members`, in the order of their group: how it moves, its bytes by the pattern's payload,
  /// and its latency, which is its price without bytes.
  struct Collected {
    CollectivePattern pattern;
    double payloads = 1.0;  ///< an all-reduce by rings moves what two all-gathers do
    Bytes payload;
    Picoseconds latency = 0;
  };
  [[nodiscard]] Collected collective(const Block&, const Op&, const GroupShape&) const;
  [[nodiscard]] GroupShape shape(std::span<const Rank> members) const;
  /// Who sends to whom, for each byte of the payload.  A collective goes from box to box, and from GPU to GPU of a
  /// box, in the order of ranks: so a placement decides which wires a ring follows.
  [[nodiscard]] std::vector<GpuTraffic> pairs(const CollectivePattern&, std::span<const Rank> members) const;
  [[nodiscard]] LinkShares shares(const CollectivePattern&, std::span<const Rank> members) const;

  /// The shares of one message.
  [[nodiscard]] LinkShares shares(Rank from, Rank to) const;
  [[nodiscard]] Picoseconds latency(Rank from, Rank to) const;

  /// Capacity of a link, as far as the library reaches it: calibrations say which part of a level's bandwidth that is.
  [[nodiscard]] Bandwidth capacity(LinkId) const;
  [[nodiscard]] const Fabric& fabric() const { return *routes_.fabric; }
  [[nodiscard]] const FabricRoutes& routes() const { return routes_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] std::uint32_t gpu_of(Rank) const;

 private:
  [[nodiscard]] std::vector<std::uint32_t> gpus_of(std::span<const Rank>) const;
  [[nodiscard]] LinkShares over_links(std::span<const GpuTraffic>) const;
  [[noreturn]] void tell_cut_off(const CutOff&) const;

  FabricRoutes routes_;
  const Program& program_;
  const CostModel& costs_;
  TokenChoices choices_;
  std::span<const std::uint32_t> placement_;
};

}  // namespace orrery
