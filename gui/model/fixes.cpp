#include "gui/model/fixes.hpp"

#include <algorithm>
#include <exception>
#include <optional>

#include "gui/model/verdict.hpp"
#include "planner/explain.hpp"

namespace orrery::gui {
namespace {

/// Opens again the decisions that were open in `given` and that `resolved` closed to the value that `changed` has. So
/// one decision changes, and no other is written down with it.
Plan opened_again(const Plan& given, const Plan& resolved, Plan changed) {
  const auto open = [&](auto Plan::*choice) {
    if (changed.*choice == resolved.*choice) changed.*choice = given.*choice;
  };
  open(&Plan::stage_layers);
  open(&Plan::recompute_layers);
  open(&Plan::offload_states);
  open(&Plan::offload_parameters);
  open(&Plan::offload_activations);
  open(&Plan::parameter_chunk);
  open(&Plan::gradient_bucket);
  open(&Plan::overlap_gradients);
  open(&Plan::attention);
  return changed;
}

struct Tried {
  std::string dimension;
  Fix fix;
};

std::uint64_t device_use(const Report& r) {
  std::uint64_t most = 0;
  for (const StageMemory& m : r.memory_by_stage) most = std::max(most, process_of(r, m));
  return most;
}

/// The prediction with the memory of its processes.
Report completed_report(const std::shared_ptr<const PricedRun>& run) { return predict(run).report; }

/// The change as buttons show it: "recompute none -> full".
std::string shown(const PlanChange& change) {
  std::string out = describe(change);
  if (const std::size_t at = out.find(" -> "); at != std::string::npos) out.replace(at, 4, " \u2192 ");
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

/// Every single change, with the prediction of its tensors alone.
std::vector<Tried> tried_changes(const Prediction& now, const std::atomic<bool>& outdated) {
  std::vector<Tried> out;
  const PlannedRun& run = now.run;
  for (const PlanChange& change : single_changes(run)) {
    if (outdated) return {};
    if (change.dimension == "order of mesh axes") continue;  // moves ranks, not memory
    PricedRun changed = *now.of;
    changed.run.plan = opened_again(now.of->run.plan, run.plan, change.plan);
    try {
      const auto priced = std::make_shared<const PricedRun>(std::move(changed));
      out.push_back({change.dimension, {shown(change), priced, predict_live(priced).report}});
    } catch (const std::exception&) {
      continue;  // a change that makes ranks wait for each other is no fix
    }
  }
  return out;
}

}  // namespace

std::vector<Fix> smallest_fixes(const Prediction& now, const std::atomic<bool>& outdated, std::size_t most) {
  std::vector<Tried> tried = tried_changes(now, outdated);
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Tried& a, const Tried& b) { return a.fix.report.step_time < b.fix.report.step_time; });
  const Report& r = now.report;
  const std::uint64_t reserved = r.peak_memory_reserved_bytes.value_or(0);
  const std::uint64_t process = r.peak_memory_process_bytes.value_or(reserved);
  const std::uint64_t beside = process - std::min(process, reserved);
  std::vector<Fix> out;
  std::vector<std::string> decided;
  for (Tried& t : tried) {
    if (outdated) return {};
    if (out.size() == most) break;
    const bool seen = std::find(decided.begin(), decided.end(), t.dimension) != decided.end();
    const Report& live = t.fix.report;
    const bool hopeless = live.memory_capacity_bytes && device_use(live) + beside > *live.memory_capacity_bytes;
    if (seen || !live.fits || hopeless) continue;
    t.fix.report = completed_report(t.fix.run);
    if (!t.fix.report.fits) continue;
    decided.push_back(t.dimension);
    out.push_back(std::move(t.fix));
  }
  if (!out.empty() || tried.empty()) return out;
  auto least = std::min_element(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) {
    return device_use(a.fix.report) < device_use(b.fix.report);
  });
  least->fix.report = completed_report(least->fix.run);
  if (device_use(least->fix.report) < device_use(r)) out.push_back(std::move(least->fix));
  return out;
}

FixService::FixService(QObject* parent)
    : QObject(parent), worker_([this](const PredictionPointer& request, const std::atomic<bool>& outdated) {
        auto done = std::make_shared<Fixes>();
        done->of = request;
        try {
          done->list = smallest_fixes(*request, outdated);
        } catch (const std::exception&) {
          done->list.clear();  // the verdict stands without them
        }
        if (outdated) return;
        QMetaObject::invokeMethod(
            this, [this, told = FixesPointer(std::move(done))] { Q_EMIT found(told); }, Qt::QueuedConnection);
      }) {}

}  // namespace orrery::gui
