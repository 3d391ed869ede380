#include "planner/certificate.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

std::uint64_t pruned(const SearchResult& result, const char* reason) {
  for (const PruneCount& p : result.pruned) {
    if (p.reason == reason) return p.count;
  }
  return 0;
}

const char* what(Objective o) {
  switch (o) {
    case Objective::step_time: return "estimated step time";
    case Objective::memory: return "peak memory, and of those the least estimated step time,";
    case Objective::cost: return "cost";
  }
  return "";
}

}  // namespace

void write_certificate(SearchResult& result, const CertificateInput& input) {
  std::string text;
  result.certified = result.complete && !result.plans.empty();
  if (!result.complete) {
    text = fmt::format(
        "The search was stopped after {} of {} plans had been estimated.  The plans shown are the best of those; "
        "nothing is proven about the rest.",
        result.evaluated, result.space);
  } else if (result.space == 0) {
    text = "No plan of the space keeps the rules of docs/plan-file.md: no sizes of axes divide what they cut.";
  } else if (result.plans.empty()) {
    text = fmt::format(
        "None of the {} plans of the space fits: each needs more than the {:.1f} GiB of a device on "
        "some stage{}, by a lower bound on its peak or by its Program.",
        result.space, input.capacity.in(gibibyte),
        input.host ? fmt::format(", or more than the {:.1f} GiB of a host", input.host->in(gibibyte)) : "");
  } else {
    text = fmt::format(
        "The least {} over all {} plans of the space is proven.  {} do not fit in memory (by a lower bound "
        "on their peak, or by their Program). ",
        what(input.objective), result.space, result.infeasible);
    const std::uint64_t by_bound = pruned(result, "bound");
    if (by_bound > 0) {
      text += fmt::format(" {} have a lower bound above number {} of the best", by_bound, result.plans.size());
      if (input.objective != Objective::memory && input.least_bound_left) {
        text += fmt::format(" ({:.6f} s; the least such bound is {:.6f} s)",
                            result.plans.back().report.step_time.in(second), input.least_bound_left->in(second));
      }
      text += ".";
    }
    if (const std::uint64_t same = pruned(result, "same"); same > 0) {
      text += fmt::format(
          "  For {} another plan of the space stands, which is the same or, with less recomputed or in host memory, no "
          "slower.",
          same);
    }
    text += fmt::format("  The remaining {} were lowered and estimated.", result.evaluated);
  }
  if (input.best_simulated && result.certified) {
    result.simulated_certified = input.below_simulated == 0;
    text += result.simulated_certified
                ? fmt::format(
                      "  No other plan's bound lies below the best simulated time, {:.6f} s: that minimum is "
                      "proven too.",
                      input.best_simulated->in(second))
                : fmt::format(
                      "  The simulated minimum is uncertified: up to {} plans that were not simulated have a bound "
                      "below the best simulated time, {:.6f} s.",
                      input.below_simulated, input.best_simulated->in(second));
  }
  result.certificate = std::move(text);
}

}  // namespace orrery
