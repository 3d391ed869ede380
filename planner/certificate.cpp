#include "planner/certificate.hpp"

#include <fmt/format.h>

#include "core/base/units_text.hpp"

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

std::string memory_rule(const CertificateInput& input) {
  std::string text = fmt::format("the {:.1f} GiB of the smallest device", input.capacity.in(gibibyte));
  if (input.headroom > Bytes()) text += fmt::format(" less {:.1f} GiB kept free", input.headroom.in(gibibyte));
  if (input.host) text += fmt::format(", or the {:.1f} GiB of a host", input.host->in(gibibyte));
  return text;
}

/// What was done and found, in one sentence.
std::string sentence(const SearchResult& result, const CertificateInput& input) {
  if (!result.complete) {
    return fmt::format("The search was stopped after {} of {} plans; these are the best of those.",
                       with_commas(result.evaluated), with_commas(result.space));
  }
  if (result.space == 0) {
    return "No plan of the space keeps the rules of docs/plan-file.md: no sizes of axes divide what they cut.";
  }
  if (result.plans.empty()) {
    return fmt::format("None of the {} plans fits: each needs more than {}.", with_commas(result.space),
                       memory_rule(input));
  }
  return fmt::format(
      "#1 has the least {} of all {} plans: {} do not fit, {} cannot be better or are the same as another, {} were "
      "estimated one by one.",
      what(input.objective), with_commas(result.space), with_commas(result.infeasible),
      with_commas(pruned(result, "bound") + pruned(result, "same")), with_commas(result.evaluated));
}

/// The proof, figure by figure.
std::string details(SearchResult& result, const CertificateInput& input) {
  if (!result.certified) return "";
  std::string text = fmt::format("A plan fits where its processes stay within {}.", memory_rule(input));
  if (const std::uint64_t by_bound = pruned(result, "bound"); by_bound > 0) {
    text += fmt::format("  {} plans have a lower bound above #{}", with_commas(by_bound), result.plans.size());
    if (input.objective != Objective::memory && input.least_bound_left) {
      text += fmt::format(" ({:.6f} s; the least such bound is {:.6f} s)",
                          result.plans.back().report.step_time.in(second), input.least_bound_left->in(second));
    }
    text += ".";
  }
  if (const std::uint64_t same = pruned(result, "same"); same > 0) {
    text += fmt::format(
        "  For {} another plan stands, which is the same or, with less recomputed or in host memory, no slower.",
        with_commas(same));
  }
  if (input.best_simulated) {
    result.simulated_certified = input.below_simulated == 0;
    text += result.simulated_certified
                ? fmt::format("  No other plan's bound lies below the best simulated time, {:.6f} s.",
                              input.best_simulated->in(second))
                : fmt::format(
                      "  Up to {} plans that were not simulated may be faster than the best simulated time, "
                      "{:.6f} s.",
                      with_commas(input.below_simulated), input.best_simulated->in(second));
  }
  return text;
}

}  // namespace

void write_certificate(SearchResult& result, const CertificateInput& input) {
  result.certified = result.complete && !result.plans.empty();
  result.certificate = sentence(result, input);
  result.certificate_details = details(result, input);
}

}  // namespace orrery
