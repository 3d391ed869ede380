#include "sim/cost/token_exchange.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/collective_cost.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"

namespace orrery {

TokenChoices token_choices(const Program& program) {
  for (const Block& block : program.blocks) {
    for (const Kernel& k : block.kernels) {
      if (k.kind != KernelKind::route_tokens && k.kind != KernelKind::choose_experts) continue;
      return {k.batch, std::max<std::uint32_t>(1, k.kv_heads), k.kv_heads == 0 ? 1U : k.head_dim};
    }
  }
  return {};
}

bool exchanges_tokens(const Program& program, const Collective& c) {
  return c.kind == Collective::Kind::all_to_all && c.width == 0 && cut_experts(program[c.group].axes);
}

double reached_nodes(double nodes, const TokenChoices& t) {
  const double n = std::min(nodes, std::max(1.0, nodes * t.chosen_groups / t.groups));
  return n * (1.0 - std::pow(1.0 - 1.0 / n, static_cast<double>(t.per_token)));
}

Seconds CollectiveCost::exchange(Bytes payload, const GroupShape& shape, const TokenChoices& t,
                                 std::optional<CollectiveAlgorithm> algorithm, Derivation* why) const {
  std::size_t inside = 0;  // levels of a node, or of a domain of NVLink
  while (inside < shape.levels && (nccl_ ? nccl_->is_inside(inside) : inside == 0)) ++inside;
  const std::uint32_t mates = inside == 0 ? 1 : shape.level[inside - 1].least;
  const double nodes = static_cast<double>(shape.members) / mates;
  if (node_copies_ >= 1.0 || t.per_token == 0 || inside == shape.levels || messages_) {
    return choose(Collective::Kind::all_to_all, payload, shape, algorithm, why).time;
  }
  const double choices = t.per_token;
  const double reached = std::min(choices, reached_nodes(nodes, t));
  const double share = (reached + node_copies_ * (choices - reached)) / choices;
  if (why != nullptr) {
    why->given("launch", launch_, NumberSource::calibration, "collective_launch");
    why->given("other nodes", nodes - 1.0, NumberSource::placement);
  }
  const Bytes block = (share / nodes) * payload;
  const Seconds network = (nodes - 1.0) * message_time(block, links_[shape.levels - 1], why);
  if (why != nullptr) why->made(NumberBy::product, 2, "once to each node", network, "DeepSeek-V3, section 3.2.2");
  Seconds node;
  if (mates > 1) {
    if (why != nullptr) why->given("other ranks of the node", mates - 1.0, NumberSource::placement);
    node = (mates - 1.0) * message_time((1.0 / mates) * payload, links_[0], why);
    if (why != nullptr) {
      why->made(NumberBy::product, 2, "on to the experts", node);
      why->made(NumberBy::largest, 2, "network beside NVLink", std::max(network, node));
    }
  }
  const Seconds time = launch_ + std::max(network, node);
  if (why != nullptr) why->made(NumberBy::sum, 2, "exchange of tokens", time);
  return time;
}

}  // namespace orrery
