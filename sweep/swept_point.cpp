#include "sweep/swept_point.hpp"

namespace orrery {

std::string_view name_of(SweptPoint::State state) {
  switch (state) {
    case SweptPoint::State::found: return "found";
    case SweptPoint::State::no_fit: return "no-fit";
    case SweptPoint::State::refused: return "refused";
    case SweptPoint::State::ruled_out: return "ruled-out";
  }
  return "";
}

SweptPoint::Figures figures_of(const Report& report, Seconds step, std::uint64_t tokens_per_step) {
  const double faster = report.step_time / step;
  SweptPoint::Figures f;
  f.gpus = report.gpus;
  f.step_s = step.base();
  f.predicted_step_s = report.step_time.base();
  if (report.interval) {
    f.low_s = report.interval->low.base();
    f.high_s = report.interval->high.base();
  }
  f.tokens_per_s = faster * report.tokens_per_s;
  f.tokens_per_step = static_cast<double>(tokens_per_step);
  f.mfu = faster * report.model_flops_utilization;
  f.memory_bytes = held(report);
  f.memory_capacity_bytes = report.memory_capacity_bytes;
  if (report.cost_per_step) f.cost_per_step = *report.cost_per_step / faster;
  f.currency = report.cost_currency;
  return f;
}

}  // namespace orrery
