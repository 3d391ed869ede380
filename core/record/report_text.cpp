#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/record/report_file.hpp"

namespace orrery {

namespace {

std::string bytes_text(std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); }

std::string percent(double part) { return fmt::format("{:.1f} %", 100.0 * part); }

void line(std::string& out, const char* name, const std::string& value) {
  out += fmt::format("  {:<26}{}\n", name, value);
}

}  // namespace

std::string render(const Report& r) {
  std::string out = fmt::format("{}{}{} on {} {}\n", r.origin, r.plan.empty() ? "" : " of ", r.plan, r.gpus,
                                r.gpus == 1 ? "device" : "devices");
  const double step = r.step_time.base();
  line(out, "step time", short_text(r.step_time, 4));
  line(out, "tokens per second", fmt::format("{:.1f} ({:.1f} per device)", r.tokens_per_s, r.tokens_per_s_per_gpu));
  if (r.model_flops_utilization > 0.0) {
    line(out, "model FLOPs utilization",
         fmt::format("{} (hardware {})", percent(r.model_flops_utilization), percent(r.hardware_flops_utilization)));
    line(out, "  convention", r.flop_convention);
  }
  line(out, "bubble", percent(r.bubble_fraction));
  line(out, "exposed communication",
       fmt::format("{} ({})", short_text(r.exposed_communication),
                   percent(step > 0.0 ? r.exposed_communication.base() / step : 0.0)));
  if (r.exposed_exchange.base() > 0.0) {
    line(out, "  of it bubble as well", fmt::format("{} (messages between stages)", short_text(r.exposed_exchange)));
  }
  std::string memory = bytes_text(r.peak_memory_bytes);
  if (r.memory_capacity_bytes) {
    memory += fmt::format(" of {}{}", bytes_text(*r.memory_capacity_bytes),
                          r.peak_memory_bytes <= *r.memory_capacity_bytes ? "" : ": does not fit");
  }
  line(out, "peak memory", memory);
  const auto below = [&](const char* name, const std::optional<std::uint64_t>& peak,
                         const std::optional<std::uint64_t>& capacity) {
    if (!peak) return;
    std::string text = bytes_text(*peak);
    if (capacity) {
      text += fmt::format(" of {}{}", bytes_text(*capacity), *peak <= *capacity ? "" : ": does not fit");
    }
    line(out, name, text);
  };
  below("peak host memory of a node", r.peak_host_memory_bytes, r.host_memory_capacity_bytes);
  below("peak disk of a node", r.peak_disk_bytes, r.disk_capacity_bytes);
  line(out, "sent by all", bytes_text(r.sent_bytes));
  if (r.cost_per_step) line(out, "cost per step", fmt::format("{:.4g}", *r.cost_per_step));
  if (r.loss) line(out, "loss", fmt::format("{:.6g}", *r.loss));

  if (!r.time_by_stage.empty()) {
    out +=
        "\n  stage     compute collectives      bubble        peak     weights   gradients   optimizer activations   "
        "workspace\n";
    for (std::size_t i = 0; i < std::max(r.time_by_stage.size(), r.memory_by_stage.size()); ++i) {
      const StageTime t = i < r.time_by_stage.size() ? r.time_by_stage[i] : StageTime{};
      const StageMemory m = i < r.memory_by_stage.size() ? r.memory_by_stage[i] : StageMemory{};
      out += fmt::format("  {:>5}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n", m.stage,
                         short_text(t.compute), short_text(exposed_collectives(t)), short_text(t.bubble),
                         bytes_text(m.peak), bytes_text(m.weights), bytes_text(m.gradients), bytes_text(m.optimizer),
                         bytes_text(m.activations), bytes_text(m.workspace));
    }
  }
  if (!r.operations.empty()) {
    std::vector<OperationTime> sorted = r.operations;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const OperationTime& a, const OperationTime& b) { return a.time > b.time; });
    out += fmt::format("\n  {:<34}{:>12}{:>10}{:>10}\n", "operation (mean over ranks)", "time", "of step", "runs");
    for (const OperationTime& o : sorted) {
      out += fmt::format("  {:<34}{:>12}{:>10}{:>10}\n", o.name, short_text(o.time),
                         percent(step > 0.0 ? o.time.base() / step : 0.0), o.count);
    }
  }
  if (!r.assumptions.empty()) {
    out += "\n  assumed:\n";
    for (const std::string& a : r.assumptions) out += "    " + a + "\n";
  }
  return out;
}

}  // namespace orrery
