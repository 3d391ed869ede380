#include "validate/validation.hpp"

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/concurrent_unordered_map.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "validate/measured_memory.hpp"
#include "validate/prepared_run.hpp"
#include "validate/program_habits.hpp"
#include "validate/trained_weights.hpp"

namespace orrery {
namespace {

struct Outcome {
  std::variant<ValidatedRun, SkippedRun> result;
  bool inconsistent = false;
};

std::string cell(const std::optional<std::uint64_t>& c) { return c ? std::to_string(*c) : ""; }

/// A key for rows that differ only in their plans.
std::string work_of(const MeasuredRun& r) {
  return fmt::format("{} ({} layers of {}, {} heads{}), {} tokens, {}, {} x {}{}, {}", r.model, cell(r.layers),
                     cell(r.hidden), cell(r.heads),
                     r.experts.value_or(0) > 0 ? fmt::format(", {} experts", *r.experts) : "", cell(r.seq), r.precision,
                     cell(r.gpus), r.gpu, r.gpu_mem_gb ? fmt::format(" {} GB", *r.gpu_mem_gb) : "", r.framework);
}

std::string plan_of(const MeasuredRun& r) {
  std::string out;
  for (const auto* c : {&r.gbs, &r.mbs, &r.tp, &r.pp, &r.vp, &r.dp, &r.cp, &r.ep, &r.etp}) out += cell(*c) + " ";
  return out + fmt::format("{} {} {} {}", r.sp, r.zero, r.recompute, r.inter_net);
}

/// Compares the stage that holds most, or the last one, whose last rank writes the log.
void compare_memory(ValidatedRun& out, const PreparedRun& p, const MeasuredMemory& measured) {
  const std::vector<MemoryFigures> stages = memory_figures(p);
  const auto largest = [&](std::uint64_t MemoryFigures::*figure) {
    std::uint64_t most = 0;
    for (const MemoryFigures& m : stages) most = std::max(most, m.*figure);
    return static_cast<double>(measured.last_rank ? stages.back().*figure : most);
  };
  const auto compared = [](double predicted, double bytes) {
    return PredictedMeasured{predicted, bytes, error_pct(predicted, bytes)};
  };
  if (measured.allocated) out.memory = compared(largest(&MemoryFigures::allocated), *measured.allocated);
  if (measured.reserved) out.reserved = compared(largest(&MemoryFigures::reserved), *measured.reserved);
}

Outcome predicted(const MeasuredRun& row, const Library& library, const std::vector<CostFile>& costs) {
  std::variant<PreparedRun, std::string> prepared = prepare(row, library);
  if (auto* reason = std::get_if<std::string>(&prepared)) {
    return Outcome{SkippedRun{row.id, std::move(*reason), has_full_configuration(row)}, false};
  }
  auto& p = std::get<PreparedRun>(prepared);
  ValidatedRun out;
  out.id = row.id;
  out.gpu = row.gpu;
  out.source = row.source;
  out.precision = row.precision;
  out.framework = habits_of(row)->name;
  out.step = step_time(p, costs_of(costs, p.labels));
  if (p.measured) out.time = PredictedMeasured{out.step, *p.measured, error_pct(out.step, *p.measured)};
  out.work = work_of(row);
  out.plan = plan_of(row);
  out.sequences = static_cast<double>(p.run.workload.global_batch);
  out.kind = p.run.model.mixture ? "mixture" : "dense";
  const HeldOutErrors errors = errors_of(costs, p.labels, ModelKnown{p.run.model.mixture.has_value(), p.architecture});
  out.interval_of = errors.group;
  out.low = errors.low * out.step;
  out.high = errors.high * out.step;
  if (const auto measured = measured_memory(row); measured && habits_of(row)->memory_known)
    compare_memory(out, p, *measured);
  out.filled = std::move(p.filled);
  return {std::move(out), p.inconsistent};
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

bool has_full_configuration(const MeasuredRun& r) {
  return measured_step(r) && r.gpus && r.layers && r.hidden && r.heads && r.seq && r.gbs && r.mbs && r.tp && r.pp &&
         !r.precision.empty() && trained_weights(r) == TrainedWeights::all;
}

const std::vector<CostFile>& shipped_costs(const Library& library) {
  static tbb::concurrent_unordered_map<std::string, std::vector<CostFile>> read;  // by data directory
  const std::string directory = library.directory().string();
  if (const auto at = read.find(directory); at != read.end()) return at->second;
  Diagnostics d;
  std::optional<std::vector<CostFile>> found = read_costs(library.directory() / "software", d);
  if (!found) throw Error("shipped costs of software cannot be read\n" + render(d));
  return read.emplace(directory, std::move(*found)).first->second;
}

double interval_coverage(const Validation& v) { return interval_coverage(pointers(v.rows)); }

double interval_coverage(const std::vector<const ValidatedRun*>& rows) {
  std::size_t timed = 0, inside = 0;
  for (const ValidatedRun* r : rows) {
    if (!r->time) continue;
    ++timed;
    inside += r->low <= r->time->measured && r->time->measured <= r->high ? 1 : 0;
  }
  return timed == 0 ? 0.0 : static_cast<double>(inside) / static_cast<double>(timed);
}

Validation validate(const std::vector<MeasuredRun>& table, const Library& library) {
  const std::vector<CostFile>& costs = shipped_costs(library);
  std::vector<Outcome> outcomes(table.size());
  tbb::parallel_for(std::size_t{0}, table.size(),
                    [&](std::size_t i) { outcomes[i] = predicted(table[i], library, costs); });
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
  std::vector<double> reserved;
  for (const ValidatedRun* r : rows) {
    if (r->time) time.push_back(r->time->error_pct);
    if (r->memory) memory.push_back(r->memory->error_pct);
    if (r->reserved) reserved.push_back(r->reserved->error_pct);
  }
  return {summarize_errors(time), summarize_errors(memory), summarize_errors(reserved)};
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
    case GroupBy::kind: return r.kind;
    case GroupBy::interval: return r.interval_of;
  }
  return r.gpu;
}

std::vector<RunGroup> grouped(const Validation& v, GroupBy by) {
  std::map<std::string, std::vector<const ValidatedRun*>> groups;
  for (const ValidatedRun& r : v.rows) groups[group_name(r, by)].push_back(&r);
  std::vector<RunGroup> out;
  for (const auto& [name, rows] : groups) out.push_back({name, summarize_runs(rows), interval_coverage(rows)});
  return out;
}

}  // namespace orrery
