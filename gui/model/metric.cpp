#include "gui/model/metric.hpp"

#include <fmt/format.h>

#include <QString>
#include <QtGlobal>
#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/record/operation.hpp"
#include "core/record/rates.hpp"
#include "gui/model/basis.hpp"
#include "gui/model/verdict.hpp"

namespace orrery::gui {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }
std::string bytes(std::uint64_t n) { return short_text(Bytes::of(static_cast<double>(n))); }

/// Text from files as HTML shows it.
std::string escaped(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())).toHtmlEscaped().toStdString();
}

std::string formula(const std::string& text) { return "<p><b>" + text + "</b></p>"; }

class HtmlTable {
 public:
  HtmlTable& row(std::initializer_list<std::string> cells, const char* tag = "td") {
    text_ += "<tr>";
    bool first = true;
    for (const std::string& cell : cells) {
      text_ += fmt::format("<{0} align=\"{1}\">{2}</{0}>", tag, first ? "left" : "right", cell);
      first = false;
    }
    text_ += "</tr>";
    return *this;
  }
  [[nodiscard]] std::string str() const { return "<table cellspacing=\"0\" cellpadding=\"3\">" + text_ + "</table>"; }

 private:
  std::string text_;
};

std::string stages_of_time(const Report& r) {
  HtmlTable table;
  table.row({"stage", "compute", "collectives", "bubble"}, "th");
  constexpr std::size_t most = 16;
  for (std::size_t i = 0; i < std::min(most, r.time_by_stage.size()); ++i) {
    const StageTime& s = r.time_by_stage[i];
    table.row(
        {fmt::to_string(s.stage), short_text(s.compute), short_text(exposed_collectives(s)), short_text(s.bubble)});
  }
  const std::string rest =
      r.time_by_stage.size() > most ? fmt::format("<p>and {} more stages.</p>", r.time_by_stage.size() - most) : "";
  return table.str() + rest;
}

std::string step_explained(const Prediction& p) {
  const Report& r = p.report;
  const Seconds bubble = r.bubble_fraction * r.step_time;
  std::string out = formula("step = compute + waiting for collectives + bubble") +
                    fmt::format("<p>{} = {} + {} + {}</p>", short_text(r.step_time, 4), short_text(r.compute, 4),
                                short_text(exposed_collectives(r), 4), short_text(bubble, 4)) +
                    "<p>What the compute lane of a rank does, mean over ranks: it computes, waits for a collective, or "
                    "has nothing to do (docs/decisions/0006).</p>" +
                    stages_of_time(r);
  if (r.interval) {
    out += fmt::format("<p>Eight measured runs in ten of this kind lie between {} and {}.</p>",
                       short_text(r.interval->low, 4), short_text(r.interval->high, 4));
  }
  return out;
}

std::string tokens_explained(const Prediction& p) {
  const Workload& w = p.run.workload;
  return formula("tokens/s = batch × sequence / step") +
         fmt::format("<p>{} = {} × {} / {}</p><p>{} for each of the {} devices.</p>",
                     short_count(p.report.tokens_per_s, 4), with_commas(w.global_batch), with_commas(w.sequence_length),
                     short_text(p.report.step_time, 4), short_count(p.report.tokens_per_s_per_gpu, 4),
                     with_commas(p.report.gpus));
}

std::string mfu_explained(const Prediction& p) {
  const Report& r = p.report;
  const DeviceSpec& device = p.run.cluster->device;
  const auto peak = device.peak.find(p.run.workload.precision);
  std::string out = formula("MFU = model FLOPs / (devices × peak × step)");
  if (peak == device.peak.end()) return out + "<p>The peak of the device is not known.</p>";
  out += fmt::format("<p>{} = {}FLOP / ({} × {} × {})</p>", percent(r.model_flops_utilization),
                     short_count(model_flops(p.run.model, p.run.workload), 4), with_commas(r.gpus),
                     short_text(peak->second, 4), short_text(r.step_time, 4));
  return out + fmt::format(
                   "<p>Counted: {}. With what is computed again: {}.</p>"
                   "<p>Korthikanti et al., 2023 (docs/formulas/counts.md, <i>model_flops</i>).</p>",
                   escaped(r.flop_convention), percent(r.hardware_flops_utilization));
}

const StageMemory* fullest(const Report& r) {
  const auto at = std::max_element(r.memory_by_stage.begin(), r.memory_by_stage.end(),
                                   [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
  return at == r.memory_by_stage.end() ? nullptr : &*at;
}

std::string memory_explained(const Prediction& p) {
  const Report& r = p.report;
  std::string out = formula("peak = weights + gradients + optimizer + activations + workspace");
  if (const StageMemory* m = fullest(r)) {
    out += fmt::format(
        "<p>{} = {} + {} + {} + {} + {}</p><p>Live at the fullest instant of stage {}, on the fullest of its "
        "ranks.</p>",
        bytes(m->peak), bytes(m->weights), bytes(m->gradients), bytes(m->optimizer), bytes(m->activations),
        bytes(m->workspace), m->stage);
  }
  HtmlTable table;
  table.row({"live tensors", bytes(r.peak_memory_bytes)});
  if (r.peak_memory_reserved_bytes) table.row({"held by the caching allocator", bytes(*r.peak_memory_reserved_bytes)});
  if (r.peak_memory_process_bytes) table.row({"held by the process", bytes(*r.peak_memory_process_bytes)});
  if (r.memory_capacity_bytes) table.row({"of the device", bytes(*r.memory_capacity_bytes)});
  if (r.peak_host_memory_bytes) table.row({"host memory of a node", bytes(*r.peak_host_memory_bytes)});
  const FitVerdict v = fit_verdict(r);
  const std::string verdict = fmt::format("It {}: {}.", v.text, v.detail);
  return out + table.str() + (v.fits ? "<p>" + verdict + "</p>" : "<p><b>" + verdict + "</b></p>") +
         "<p>How it is counted: docs/memory.md.</p>";
}

std::string bubble_explained(const Prediction& p) {
  const Report& r = p.report;
  return formula("bubble = idle time that waits for no collective / step") +
         fmt::format("<p>{} = {} / {}</p>", percent(r.bubble_fraction), short_text(r.bubble_fraction * r.step_time, 4),
                     short_text(r.step_time, 4)) +
         "<p>The pipeline fills and drains, and stages wait for messages of their neighbours; mean over ranks.</p>" +
         stages_of_time(r);
}

std::string exposed_explained(const Prediction& p) {
  const Report& r = p.report;
  HtmlTable table;
  table.row({"communication", "time", "runs"}, "th");
  std::vector<OperationTime> operations = r.operations;
  std::stable_sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  for (const OperationTime& o : operations) {
    if (is_communication(o.name)) table.row({escaped(o.name), short_text(o.time), with_commas(o.count)});
  }
  return formula("exposed = waiting for collectives + messages between stages moving") +
         fmt::format("<p>{} = {} + {}</p>", short_text(r.exposed_communication, 4),
                     short_text(exposed_collectives(r), 4), short_text(r.exposed_exchange, 4)) +
         "<p>What communication keeps the compute lane waiting, mean over ranks. All of it, hidden or not:</p>" +
         table.str();
}

std::string cost_explained(const Prediction& p) {
  const ClusterSpec& cluster = *p.run.cluster;
  if (!p.report.cost_per_step) return "<p>The cluster has no price: its file lacks price_per_gpu_hour.</p>";
  return formula("cost = devices × price per hour × step / 3600 s") +
         fmt::format("<p>{:.4g} = {} × {:.4g} × {} / 3600 s</p>", *p.report.cost_per_step, with_commas(p.report.gpus),
                     *cluster.price_per_gpu_hour, short_text(p.report.step_time, 4));
}

/// Shares, which change by points; other figures change by their own share.
bool is_share(Metric m) { return m == Metric::mfu || m == Metric::bubble; }
bool more_is_better(Metric m) { return m == Metric::tokens_per_s || m == Metric::mfu; }

}  // namespace

const char* label_of(Metric m) {
  switch (m) {
    case Metric::step_time: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Step time");
    case Metric::tokens_per_s: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Tokens/s");
    case Metric::mfu: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "MFU");
    case Metric::peak_memory: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Peak memory");
    case Metric::bubble: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Bubble");
    case Metric::exposed_communication: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Exposed comm.");
    case Metric::cost: return QT_TRANSLATE_NOOP("orrery::gui::MetricCard", "Cost per step");
  }
  return "";
}

Reading reading(Metric m, const Prediction& p) {
  const Report& r = p.report;
  switch (m) {
    case Metric::step_time: {
      std::string note = "of no known error";
      if (r.interval) note = fmt::format("{} to {}", short_text(r.interval->low), short_text(r.interval->high));
      return {r.step_time.base(), short_text(r.step_time, 4), std::move(note)};
    }
    case Metric::tokens_per_s:
      return {r.tokens_per_s, short_count(r.tokens_per_s, 4), short_count(r.tokens_per_s_per_gpu, 4) + " per device"};
    case Metric::mfu:
      if (r.model_flops_utilization <= 0) return {0, "-", "no peak known", false};
      return {r.model_flops_utilization, percent(r.model_flops_utilization),
              "hardware " + percent(r.hardware_flops_utilization)};
    case Metric::peak_memory: {
      std::string note;
      if (r.memory_capacity_bytes) {
        note = r.peak_memory_process_bytes ? fmt::format("process {} of {}", bytes(*r.peak_memory_process_bytes),
                                                         bytes(*r.memory_capacity_bytes))
                                           : "of " + bytes(*r.memory_capacity_bytes);
      }
      return {static_cast<double>(r.peak_memory_bytes), bytes(r.peak_memory_bytes), std::move(note), true, !r.fits};
    }
    case Metric::bubble:
      return {r.bubble_fraction, percent(r.bubble_fraction), short_text(r.bubble_fraction * r.step_time) + " a step"};
    case Metric::exposed_communication:
      return {r.exposed_communication.base(), short_text(r.exposed_communication),
              r.step_time.base() > 0 ? percent(r.exposed_communication / r.step_time) + " of the step" : ""};
    case Metric::cost:
      if (!r.cost_per_step) return {0, "-", "no price known", false};
      return {*r.cost_per_step, fmt::format("{:.4g}", *r.cost_per_step),
              fmt::format("{:.4g} per M tokens", *r.cost_per_step / (r.tokens_per_s * r.step_time.base()) * 1e6)};
  }
  return {};
}

MetricChange change(Metric m, const Prediction& now, const Prediction& baseline) {
  const std::vector<BasisDifference> basis = basis_differences(*baseline.of, *now.of);
  if (!is_comparable(basis)) return {"baseline: " + short_text_of(basis), false, false};
  const Reading a = reading(m, baseline), b = reading(m, now);
  if (!a.known || !b.known || a.value == b.value) return {};
  const bool better = (b.value > a.value) == more_is_better(m);
  if (is_share(m)) return {fmt::format("{:+.1f} points", 100.0 * (b.value - a.value)), better};
  if (a.value == 0.0) return {"was 0", better};
  return {fmt::format("{:+.1f} %", 100.0 * (b.value / a.value - 1.0)), better};
}

std::string explanation(Metric m, const Prediction& p) {
  const std::string title = fmt::format("<h3>{}</h3>", label_of(m));
  switch (m) {
    case Metric::step_time: return title + step_explained(p);
    case Metric::tokens_per_s: return title + tokens_explained(p);
    case Metric::mfu: return title + mfu_explained(p);
    case Metric::peak_memory: return title + memory_explained(p);
    case Metric::bubble: return title + bubble_explained(p);
    case Metric::exposed_communication: return title + exposed_explained(p);
    case Metric::cost: return title + cost_explained(p);
  }
  return title;
}

}  // namespace orrery::gui
