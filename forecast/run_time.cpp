#include "forecast/run_time.hpp"

#include <cmath>

#include "forecast/checkpoint_interval.hpp"

namespace orrery {

std::optional<RunLedger> expected_run(Seconds work, const SavePlan& saves, const RunHazards& h) {
  RunLedger out;
  out.productive = work;
  const double segments = saves.interval.base() > 0.0 ? work / saves.interval : 0.0;
  out[LostTime::save] = segments * saves.blocking;
  if (const std::optional<Seconds> mean = h.mean()) {
    const double m = mean->base();
    const double undisturbed = std::exp(-h.recovery().base() / m);
    if (!(saved_efficiency(saves.interval, saves.blocking, saves.until_it_counts, *mean, undisturbed) > 1e-9)) {
      return std::nullopt;
    }
    const Seconds segment = saves.interval + saves.blocking;
    // Failures outside of restarts in a segment; each ends M of undisturbed steps in the mean.
    const double failures = std::expm1(segment / *mean) * std::exp(saves.until_it_counts / *mean);
    out[LostTime::lost_work] = segments * (failures * *mean - segment);
    double begin = 0.0;
    for (const auto& [why, length] : h.phases()) {
      const double end = begin + length.base() / m;
      out[why] = segments * failures / undisturbed * (std::exp(-begin) - std::exp(-end)) * *mean;
      begin = end;
    }
  }
  const Seconds running = out.productive + out[LostTime::save] + out[LostTime::lost_work];
  out[LostTime::planned_stop] =
      h.planned_stops * running.base() * (saves.blocking + h.planned_stop + h.restart + h.load);
  if (h.slow_starts > 0.0) {
    const double slow = -std::expm1(-h.slow_starts * h.slow_until_found.base());
    // While a node is slow, f seconds pass for one of work.
    out[LostTime::slow] = running * (slow * (h.slow_factor - 1.0) / (1.0 + (1.0 - slow) * (h.slow_factor - 1.0)));
  }
  return out;
}

double effective_share(const RunLedger& l) { return l.wall().base() > 0.0 ? l.productive / l.wall() : 1.0; }

}  // namespace orrery
