#include "cli/forecast_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

class Sizes {
 public:
  Sizes(const ForecastAnswer& base, const SizeWish& wish, const ForecastWishes& wishes, const CommonFlags& flags,
        const PowerTable& power)
      : base_(base), wish_(wish), wishes_(wishes), flags_(flags), power_(power) {}

  ForecastSizes find() {
    const std::uint64_t here = base_.inputs.gpus;
    std::uint64_t too_few = 0, enough = 0;
    const std::uint64_t last = std::min<std::uint64_t>(here * 64, max_devices);
    std::set<std::uint64_t> sizes{here};
    for (std::uint64_t n = std::max<std::uint64_t>(1, here / 8); n <= last; n *= 2) {
      sizes.insert(n);
      if (n % 2 == 0 && n / 2 * 3 <= last) sizes.insert(n / 2 * 3);
    }
    for (auto at = sizes.begin(); at != sizes.end() && enough == 0; ++at) (in_time(*at) ? enough : too_few) = *at;
    if (enough > 0) close_in(too_few, enough);
    progress_.clear();
    std::sort(out_.tried.begin(), out_.tried.end(),
              [](const ForecastChoice& a, const ForecastChoice& b) { return a.gpus < b.gpus; });
    return std::move(out_);
  }

 private:
  /// Looks at a number of GPUs; keeps the answer where it does what is wished. True where it ends in time.
  bool in_time(std::uint64_t gpus) {
    if (interrupted().load()) throw Error("interrupted");
    progress_.show("other numbers of GPUs", ++looked_, 0);
    const std::optional<ForecastSubject> subject =
        gpus == base_.inputs.gpus ? std::optional(base_.subject)
                                  : resized_subject(base_.subject, static_cast<std::uint32_t>(gpus), flags_, power_);
    if (!subject || !subject->report.fits) return false;
    const double tokens = base_.inputs.tokens;
    const ForecastAnswer a = forecast_answer(*subject, tokens, quick(wishes_), flags_);
    if (!a.forecast.ledger) return false;  // it never ends, or what failures cost is unknown
    const PlannedRun& run = a.subject.run;
    out_.tried.push_back({run.cluster->name, run.workload.global_batch, gpus, a.wall_s(), a.money(), a.joules()});
    if (wish_.least) {
      const double amount = amount_of(a, *wish_.least);
      if (least_ && (amount > *least_ || (amount == *least_ && gpus > out_.chosen->inputs.gpus))) return false;
      least_ = amount;
    } else if (!wish_.within || a.wall_s() > *wish_.within) {
      return false;
    }
    ForecastAnswer whole = forecast_answer(*subject, tokens, wishes_, flags_);
    // More simulated runs may have another mean.
    if (wish_.within && (!whole.forecast.ledger || whole.wall_s() > *wish_.within)) return false;
    out_.chosen = std::move(whole);
    return !wish_.least;  // others may have less
  }

  /// Halves the way between a number that is too small and one that is large enough, in whole nodes and replicas.
  void close_in(std::uint64_t too_few, std::uint64_t enough) {
    const Plan& plan = base_.subject.run.plan;
    const std::uint64_t replica = base_.subject.question ? 1 : plan.mesh.size() / plan.mesh.size(Axis::data);
    const std::uint64_t unit = std::max<std::uint64_t>(replica, base_.inputs.gpus_per_node);
    for (int tries = 0; tries < 6; ++tries) {
      const std::uint64_t middle = (too_few + enough) / 2 / unit * unit;
      if (middle <= too_few || middle >= enough) break;
      (in_time(middle) ? enough : too_few) = middle;
    }
  }

  const ForecastAnswer& base_;
  const SizeWish& wish_;
  const ForecastWishes& wishes_;
  const CommonFlags& flags_;
  const PowerTable& power_;
  ForecastSizes out_;
  Progress progress_;
  std::uint64_t looked_ = 0;
  std::optional<double> least_;
};

}  // namespace

void require_amount(const ForecastAnswer& a, SizeWish::Least what) {
  if (what == SizeWish::Least::money && !a.money()) {
    refuse("forecast.price", "the least money needs the price of a GPU-hour", {"--price 2.50 gives it."});
  }
  if (what == SizeWish::Least::energy && !a.joules()) {
    refuse("forecast.power", fmt::format("the least energy needs the power of {}", a.subject.run.cluster->device.name),
           {"--power FILE gives it (docs/forecast.md)."});
  }
}

double amount_of(const ForecastAnswer& a, SizeWish::Least what) {
  switch (what) {
    case SizeWish::Least::days: return a.wall_s();
    case SizeWish::Least::money: return *a.money();
    case SizeWish::Least::energy: return *a.joules();
  }
  return 0.0;
}

ForecastSizes forecast_sizes(const ForecastAnswer& base, const SizeWish& wish, const ForecastWishes& wishes,
                             const CommonFlags& flags, const PowerTable& power) {
  return Sizes(base, wish, wishes, flags, power).find();
}

}  // namespace orrery
