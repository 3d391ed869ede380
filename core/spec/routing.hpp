#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/dealt_choices.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Equal groups of experts, and how many of them a token visits; {1, 1} means any expert.
struct ExpertGroups {
  std::uint32_t count = 1, per_token = 1;
};
[[nodiscard]] ExpertGroups expert_groups(const Mixture&);

/// Says which experts the tokens of one mixture layer visit where the workload states it. The choice depends on
/// workload, layer, sequence and position alone, so Program, executor and reference agree, and message sizes are known
/// before a run.
///
/// Tokens of a routing group (g consecutive positions of one sequence) make k g choices, k per token. The routing's law
/// shares these choices out to experts:
///
///     balanced   equally
///     skewed     i^-exponent to the i-th in an order drawn for the layer
///     recorded   as the layer's row of the table; of prediction modules, as the last
///
/// Shares are rounded by largest remainders, and no expert gets more than g (a token visits an expert once). Choices
/// are dealt by the wrap-around rule (McNaughton, "Scheduling with deadlines and loss functions", 1959): they are
/// written expert after expert into k rows of g, and column i is what a token chooses. Which column is a token's turns
/// with the group. Each expert keeps the first `capacity` of its choices. Every group of a layer has the same counts.
///
/// Where tokens visit only experts of M groups, M g shares in groups are dealt out first in the same way, by the sums
/// of the experts' loads, and no group gets more than g. Then each group deals out its tokens' k / M choices each.
class LayerRouting {
 public:
  /// Requires a kind other than learned, per_token <= experts, a group that divides the sequence, groups.per_token that
  /// divides per_token, and for recorded routing a row for the layer.
  LayerRouting(const Workload&, std::uint32_t experts, std::uint32_t per_token, std::uint32_t layer,
               ExpertGroups groups = {});

  using Choice = DealtChoices::Choice;
  /// Choice `index` (0 .. per_token - 1) of the token.
  [[nodiscard]] Choice choice(std::uint64_t sequence, std::uint64_t position, std::uint32_t index) const {
    return dealt()(sequence, position, index);
  }
  /// With pointers into this object.
  [[nodiscard]] DealtChoices dealt() const;

  /// Number of choices of the expert in a group, dropped ones included, and number of kept ones.
  [[nodiscard]] std::uint64_t chosen(std::uint32_t expert) const { return begin_[expert + 1] - begin_[expert]; }
  [[nodiscard]] std::uint64_t kept(std::uint32_t expert) const;
  /// Number of kept choices in a group: of all experts, and of the most loaded of `parts` equal parts of them.
  [[nodiscard]] std::uint64_t kept() const;
  [[nodiscard]] std::uint64_t most_kept(std::uint32_t parts) const;

 private:
  std::uint64_t group_;
  std::uint64_t capacity_;
  std::uint64_t groups_of_sequence_;
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint32_t each_;                       ///< choices of a token in each of the groups that it visits
  std::uint32_t size_;                       ///< experts of a group
  std::vector<std::uint64_t> begin_;         ///< where each expert's choices begin in the dealt order; ends with k g
  std::vector<std::uint64_t> tokens_begin_;  ///< where each group's tokens begin; ends with g times the groups of a
                                             ///< token
};

/// Number of positions routed together: the workload's, or the whole sequence.
[[nodiscard]] std::uint64_t routing_group(const Workload&);

/// Number of choices that an expert keeps of a routing group: ceil(capacity k g / E); without capacity all g.
[[nodiscard]] std::uint64_t expert_capacity(const Workload&, std::uint32_t experts, std::uint32_t per_token);
/// The largest number of choices that `some` of the experts together keep in a group, whatever the scores:
///
///     min(g min(k, some), some C)         C = expert_capacity
///
/// The reason is that a token has at most min(k, some) of its k different choices among them.
[[nodiscard]] std::uint64_t most_kept_of_any(const Workload&, std::uint32_t experts, std::uint32_t per_token,
                                             std::uint32_t some);

/// Weight of an expert's mean score in the auxiliary loss of a layer, per token
/// of the global batch:
///
///     loss = a E sum over e of f_e P_e,   mean over the routing groups
///
/// a weight (Routing::auxiliary_loss), E experts, f_e share of the group's choices that are e (`chosen` choices,
/// dropped ones too; it has no gradient), P_e mean of the tokens' scores of e, with scores divided by their sum over
/// all experts. Source: Fedus, Zoph and Shazeer, "Switch Transformers", JMLR 23(120), 2022, equations 4 to 6; with k
/// choices f is a share of k g.
[[nodiscard]] double auxiliary_weight(const Workload&, std::uint32_t experts, std::uint32_t per_token,
                                      std::uint64_t chosen);

}  // namespace orrery
