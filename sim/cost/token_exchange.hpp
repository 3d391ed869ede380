#pragma once

#include <cstdint>

#include "core/program/program.hpp"

namespace orrery {

/// How a token chooses experts, as far as the copies of it that cross the network depend on it.
struct TokenChoices {
  std::uint32_t per_token = 0;      ///< experts that a token visits; 0: the Program has no mixture
  std::uint32_t groups = 1;         ///< groups of experts, in order of their ranks
  std::uint32_t chosen_groups = 1;  ///< groups that a token may choose from
};

/// How the tokens of the Program's mixture choose experts.
[[nodiscard]] TokenChoices token_choices(const Program&);
/// Whether rows go to experts or come back: an all-to-all of ranks with different experts, priced as an exchange.
[[nodiscard]] bool exchanges_tokens(const Program&, const Collective&);

/// Nodes that a token's choices reach in the mean, where every expert is as likely:
///
///     D = n (1 - (1 - 1 / n)^K),   n = min(N, max(1, N M / G))
///
///     N  nodes of the expert axis    K  choices of a token    M, G  groups that it may choose from, and there are
///
/// Source: the mean number of cells that K balls occupy (Feller, "An Introduction to Probability Theory", volume 1,
/// IV.2). Leaves out: that a token's choices are distinct experts, which spreads them a little more.
[[nodiscard]] double reached_nodes(double nodes, const TokenChoices&);

}  // namespace orrery
