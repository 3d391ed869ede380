#include "validate/validation.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <variant>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "planner/resolve.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/estimate/estimate.hpp"
#include "validate/expressed_run.hpp"
#include "validate/framework.hpp"

namespace orrery {
namespace {

struct Outcome {
  std::variant<ValidatedRun, SkippedRun> result;
  bool inconsistent = false;
};

Calibration calibration_of(const DeviceSpec& device, const Library& library) {
  Diagnostics d;
  std::optional<Calibration> found = read_calibration(library.calibration(device.calibration), d);
  if (!found) throw Error("a shipped calibration cannot be read\n" + render(d));
  return std::move(*found);
}

Outcome predicted(const MeasuredRun& row, const Library& library) {
  const auto skipped = [&](std::string reason) {
    return Outcome{SkippedRun{row.id, std::move(reason), has_full_configuration(row)}, false};
  };
  const std::optional<double> step = measured_step(row);
  if (!step) return skipped("no time is published");
  ExpressedRun expressed = express(row, library);
  if (!expressed.run) return skipped(expressed.reason);
  PlannedRun& run = *expressed.run;
  const ClusterSpec& cluster = *run.cluster;
  const Calibration calibration = calibration_of(cluster.device, library);
  run.plan = resolve(run.plan, run.model, run.workload, cluster, calibration).plan;
  const Program program = lower(run.model, run.workload, run.plan);
  const Report report = estimate(run, program, CostModel(cluster, calibration, run.plan.mesh, run.plan.placement));

  ValidatedRun out;
  out.id = row.id;
  out.gpu = row.gpu;
  out.source = row.source;
  out.precision = row.precision;
  out.framework = framework_of(row)->name;
  out.time = {report.step_time.base(), *step, error_pct(report.step_time.base(), *step)};
  if (const std::optional<double> bytes = measured_allocated(row)) {
    const auto peak = static_cast<double>(report.peak_memory_bytes);
    out.memory = PredictedMeasured{peak, *bytes, error_pct(peak, *bytes)};
  }
  out.filled = std::move(expressed.filled);
  return {std::move(out), row.notes.find("INCONSISTENT") != std::string::npos};
}

std::vector<const ValidatedRun*> pointers(const std::vector<ValidatedRun>& rows) {
  std::vector<const ValidatedRun*> out;
  for (const ValidatedRun& r : rows) out.push_back(&r);
  return out;
}

}  // namespace

std::optional<double> measured_step(const MeasuredRun& r) {
  if (r.iter_s) return r.iter_s;
  if (!r.tok_s_gpu || !r.gbs || !r.seq || !r.gpus) return std::nullopt;
  return static_cast<double>(*r.gbs) * static_cast<double>(*r.seq) / (*r.tok_s_gpu * static_cast<double>(*r.gpus));
}

std::optional<double> measured_allocated(const MeasuredRun& r) {
  // "GiB max_allocated ...", "GB max allocated": what the allocator handed out; nvidia-smi and reserved figures
  // hold its cache and the context too.
  const bool allocated = r.peak_mem_kind.find("max_allocated") != std::string::npos ||
                         r.peak_mem_kind.find("max allocated") != std::string::npos;
  if (!r.peak_mem_gb || !allocated) return std::nullopt;
  return *r.peak_mem_gb * (r.peak_mem_kind.starts_with("GiB") ? gibibyte : gigabyte).base();
}

bool has_full_configuration(const MeasuredRun& r) {
  return measured_step(r) && r.gpus && r.layers && r.hidden && r.heads && r.seq && r.gbs && r.mbs && r.tp && r.pp &&
         !r.precision.empty() && r.notes.find("LoRA") == std::string::npos;
}

Validation validate(const std::vector<MeasuredRun>& table, const Library& library) {
  std::vector<Outcome> outcomes(table.size());
  tbb::parallel_for(std::size_t{0}, table.size(), [&](std::size_t i) { outcomes[i] = predicted(table[i], library); });
  Validation out;
  out.tier = "estimate";
  for (std::size_t i = 0; i < table.size(); ++i) {
    out.full_configurations += has_full_configuration(table[i]) ? 1 : 0;
    if (auto* skipped = std::get_if<SkippedRun>(&outcomes[i].result)) {
      out.skipped.push_back(std::move(*skipped));
    } else {
      auto& rows = outcomes[i].inconsistent ? out.inconsistent : out.rows;
      rows.push_back(std::move(std::get<ValidatedRun>(outcomes[i].result)));
    }
  }
  return out;
}

RunSummary summarize_runs(const std::vector<const ValidatedRun*>& rows) {
  std::vector<double> time;
  std::vector<double> memory;
  for (const ValidatedRun* r : rows) {
    time.push_back(r->time.error_pct);
    if (r->memory) memory.push_back(r->memory->error_pct);
  }
  return {summarize_errors(time), summarize_errors(memory)};
}

RunSummary summary_of_all(const Validation& v) { return summarize_runs(pointers(v.rows)); }

RunSummary summary_of_published(const Validation& v) {
  std::vector<const ValidatedRun*> rows = pointers(v.rows);
  std::erase_if(rows, [](const ValidatedRun* r) { return !r->filled.empty(); });
  return summarize_runs(rows);
}

const std::string& group_name(const ValidatedRun& r, GroupBy by) {
  switch (by) {
    case GroupBy::gpu: return r.gpu;
    case GroupBy::source: return r.source;
    case GroupBy::precision: return r.precision;
    case GroupBy::framework: return r.framework;
  }
  return r.gpu;
}

std::vector<RunGroup> grouped(const Validation& v, GroupBy by) {
  std::map<std::string, std::vector<const ValidatedRun*>> groups;
  for (const ValidatedRun& r : v.rows) groups[group_name(r, by)].push_back(&r);
  std::vector<RunGroup> out;
  for (const auto& [name, rows] : groups) out.push_back({name, summarize_runs(rows)});
  return out;
}

}  // namespace orrery
