#include <fmt/format.h>

#include "core/base/diagnostics.hpp"
#include "sim/net/topology.hpp"

namespace orrery {
namespace {

/// Global port k of group i leads to group i + 1 + k mod (g - 1). Where several lead to one group, k / (g - 1) is the
/// copy. Port k belongs to router k / h.
class DragonflyTopology final : public Topology {
 public:
  explicit DragonflyTopology(const Dragonfly& d)
      : d_(d),
        per_group_(d.groups > 1 ? d.routers * d.global_links / (d.groups - 1) * (d.groups - 1) : 0),
        ends_(d.groups * d.routers * d.ends),
        first_local_(2 * ends_),
        first_global_(first_local_ + d.groups * d.routers * (d.routers - 1)) {
    ORRERY_ASSERT(d.groups == 1 || per_group_ > 0, d.groups, d.routers, d.global_links);
  }

  std::uint32_t ends() const override { return ends_; }
  std::uint32_t vertices() const override { return ends_ + d_.groups * d_.routers; }
  std::uint32_t links() const override { return first_global_ + d_.groups * per_group_; }
  Link link(std::uint32_t l) const override { return l < first_global_ ? d_.link : d_.global; }

  Sides sides(std::uint32_t l) const override {
    if (l < first_local_) {
      const Sides up{l / 2, ends_ + l / 2 / d_.ends};
      return l % 2 == 0 ? up : Sides{up.to, up.from};
    }
    if (l < first_global_) {
      const std::uint32_t from = (l - first_local_) / (d_.routers - 1), other = (l - first_local_) % (d_.routers - 1);
      return {ends_ + from, ends_ + from / d_.routers * d_.routers + other + (other >= from % d_.routers ? 1 : 0)};
    }
    const std::uint32_t group = (l - first_global_) / per_group_, port = (l - first_global_) % per_group_;
    const std::uint32_t to = (group + 1 + port % (d_.groups - 1)) % d_.groups;
    return {ends_ + group * d_.routers + port / d_.global_links,
            ends_ + to * d_.routers + back(port) / d_.global_links};
  }

  std::string vertex_name(std::uint32_t v) const override {
    if (v < ends_) return fmt::format("end {}", v);
    return fmt::format("router {}.{}", (v - ends_) / d_.routers, (v - ends_) % d_.routers);
  }

  void route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
             std::vector<std::uint32_t>& into) const override {
    if (from == to) return;
    std::uint32_t at = from / d_.ends;
    const std::uint32_t last = to / d_.ends, group = at / d_.routers, target = last / d_.routers;
    into.push_back(2 * from);
    if (group != target) {
      const std::uint32_t ahead = (target + d_.groups - group - 1) % d_.groups, others = d_.groups - 1;
      const std::uint32_t port = choice.pick(0, per_group_ / others, to) * others + ahead;
      at = local(at, group * d_.routers + port / d_.global_links, into);
      into.push_back(first_global_ + group * per_group_ + port);
      at = target * d_.routers + back(port) / d_.global_links;
    }
    local(at, last, into);
    into.push_back(2 * to + 1);
  }

 private:
  /// The port of the same cable in the group at its other end.
  std::uint32_t back(std::uint32_t port) const {
    const std::uint32_t others = d_.groups - 1;
    return port / others * others + others - 1 - port % others;
  }
  std::uint32_t local(std::uint32_t from, std::uint32_t to, std::vector<std::uint32_t>& into) const {
    const std::uint32_t a = from % d_.routers, b = to % d_.routers;
    if (a != b) into.push_back(first_local_ + from * (d_.routers - 1) + b - (b > a ? 1 : 0));
    return to;
  }

  Dragonfly d_;
  std::uint32_t per_group_, ends_, first_local_, first_global_;
};

}  // namespace

std::unique_ptr<Topology> dragonfly(const Dragonfly& d) { return std::make_unique<DragonflyTopology>(d); }

}  // namespace orrery
