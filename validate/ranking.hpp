#pragma once

#include <string>
#include <vector>

namespace orrery {

struct ValidatedRun;

/// A plan of a group: seconds for each sequence of the batch.
struct RankedPlan {
  std::string id;  ///< of its row, or of the first row where it was measured several times
  double predicted = 0.0;
  double measured = 0.0;  ///< mean over its rows
  friend bool operator==(const RankedPlan&, const RankedPlan&) = default;
};

/// Plans of one model on the same devices with the same software, and whether predictions put them in the right order.
struct Ranking {
  std::string work;               ///< what the plans have in common
  std::vector<RankedPlan> plans;  ///< at least fewest_ranked, fastest measured first
  double spearman = 0.0;
  /// How much longer, in percent, the plan that is predicted fastest took than the best one.
  double regret_pct = 0.0;
  friend bool operator==(const Ranking&, const Ranking&) = default;
};

inline constexpr std::size_t fewest_ranked = 3;

/// Rows with equal `work`, in groups of at least fewest_ranked plans; a plan with several rows counts once. Groups
/// stand in the order of their first rows.
[[nodiscard]] std::vector<Ranking> rankings(const std::vector<ValidatedRun>&);

/// Rank correlation.
///
///     rho = sum (x - mx) (y - my) / sqrt(sum (x - mx)^2  sum (y - my)^2)
///
///     x, y  ranks of a plan by the first and by the second value; equal values share the mean of their ranks
///     mx    mean of x, (n + 1) / 2
///
/// Source: Spearman, "The proof and measurement of association between two things", American Journal of Psychology
/// 15(1), 1904, as Pearson's correlation of ranks. The result is 0 where one list has a single value throughout.
/// Requires lists of equal length.
[[nodiscard]] double spearman(const std::vector<double>&, const std::vector<double>&);

}  // namespace orrery
