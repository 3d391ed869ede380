#include "core/record/report_file.hpp"

#include <nlohmann/json.hpp>

#include "core/record/json_fields.hpp"

namespace orrery {

using nlohmann::ordered_json;

ordered_json to_json(const Report& r) {
  ordered_json j;
  j["report"] = "orrery";
  j["version"] = 1;
  j["origin"] = r.origin;
  j["plan"] = r.plan;
  j["gpus"] = r.gpus;
  j["step_time_s"] = r.step_time.base();
  j["tokens_per_s"] = r.tokens_per_s;
  j["tokens_per_s_per_gpu"] = r.tokens_per_s_per_gpu;
  j["model_flops_utilization"] = r.model_flops_utilization;
  j["hardware_flops_utilization"] = r.hardware_flops_utilization;
  j["flop_convention"] = r.flop_convention;
  j["peak_memory_bytes"] = r.peak_memory_bytes;
  if (r.memory_capacity_bytes) j["memory_capacity_bytes"] = *r.memory_capacity_bytes;
  if (r.peak_host_memory_bytes) j["peak_host_memory_bytes"] = *r.peak_host_memory_bytes;
  if (r.host_memory_capacity_bytes) j["host_memory_capacity_bytes"] = *r.host_memory_capacity_bytes;
  if (r.peak_disk_bytes) j["peak_disk_bytes"] = *r.peak_disk_bytes;
  if (r.disk_capacity_bytes) j["disk_capacity_bytes"] = *r.disk_capacity_bytes;
  j["fits"] = r.fits;
  j["memory_by_stage"] = ordered_json::array();
  for (const StageMemory& m : r.memory_by_stage) {
    ordered_json s;
    s["stage"] = m.stage;
    s["peak_bytes"] = m.peak;
    s["weights_bytes"] = m.weights;
    s["gradients_bytes"] = m.gradients;
    s["optimizer_bytes"] = m.optimizer;
    s["activations_bytes"] = m.activations;
    s["workspace_bytes"] = m.workspace;
    j["memory_by_stage"].push_back(std::move(s));
  }
  j["bubble_fraction"] = r.bubble_fraction;
  j["exposed_communication_s"] = r.exposed_communication.base();
  j["exposed_exchange_s"] = r.exposed_exchange.base();
  j["compute_s"] = r.compute.base();
  j["time_by_stage"] = ordered_json::array();
  for (const StageTime& t : r.time_by_stage) {
    ordered_json s;
    s["stage"] = t.stage;
    s["compute_s"] = t.compute.base();
    s["exposed_communication_s"] = t.exposed_communication.base();
    s["exposed_exchange_s"] = t.exposed_exchange.base();
    s["bubble_s"] = t.bubble.base();
    j["time_by_stage"].push_back(std::move(s));
  }
  j["operations"] = ordered_json::array();
  for (const OperationTime& o : r.operations) {
    ordered_json s;
    s["name"] = o.name;
    s["time_s"] = o.time.base();
    s["count"] = o.count;
    j["operations"].push_back(std::move(s));
  }
  j["sent_bytes"] = r.sent_bytes;
  if (r.cost_per_step) j["cost_per_step"] = *r.cost_per_step;
  if (r.loss) j["loss"] = *r.loss;
  j["assumptions"] = r.assumptions;
  return j;
}

std::string write_report(const Report& report) { return to_json(report).dump(2) + "\n"; }

bool looks_like_report(std::string_view text) {
  const std::string_view start = text.substr(0, 200);
  return start.find("\"report\"") != std::string_view::npos && start.find("\"orrery\"") != std::string_view::npos;
}

std::optional<Report> read_report(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  const std::string code = "report.json";
  nlohmann::json json;
  if (!parse_json(text, file, code, diagnostics, json)) return std::nullopt;
  const std::size_t before = diagnostics.size();
  JsonFields f(json, "", file, code, diagnostics);
  if (diagnostics.size() != before || !check_version(f, "report")) return std::nullopt;
  const auto seconds = [](JsonFields& fields, const char* key, Seconds& to) {
    double value = 0.0;
    fields.read(key, value);
    if (value < 0.0) fields.error(fields.at(key), "is negative");
    to = Seconds::of(value);
  };
  Report r;
  std::string format;
  f.read("report", format);
  f.read("origin", r.origin);
  f.read("plan", r.plan);
  f.read("gpus", r.gpus);
  seconds(f, "step_time_s", r.step_time);
  f.read("tokens_per_s", r.tokens_per_s);
  f.read("tokens_per_s_per_gpu", r.tokens_per_s_per_gpu);
  f.read("model_flops_utilization", r.model_flops_utilization);
  f.read("hardware_flops_utilization", r.hardware_flops_utilization);
  f.read("flop_convention", r.flop_convention);
  f.read("peak_memory_bytes", r.peak_memory_bytes);
  f.read_optional("memory_capacity_bytes", r.memory_capacity_bytes);
  f.read_optional("peak_host_memory_bytes", r.peak_host_memory_bytes);
  f.read_optional("host_memory_capacity_bytes", r.host_memory_capacity_bytes);
  f.read_optional("peak_disk_bytes", r.peak_disk_bytes);
  f.read_optional("disk_capacity_bytes", r.disk_capacity_bytes);
  f.read("fits", r.fits);
  f.each("memory_by_stage", [&](JsonFields& s) {
    StageMemory m;
    s.read("stage", m.stage);
    s.read("peak_bytes", m.peak);
    s.read("weights_bytes", m.weights);
    s.read("gradients_bytes", m.gradients);
    s.read("optimizer_bytes", m.optimizer);
    s.read("activations_bytes", m.activations);
    s.read("workspace_bytes", m.workspace);
    r.memory_by_stage.push_back(m);
  });
  f.read("bubble_fraction", r.bubble_fraction);
  seconds(f, "exposed_communication_s", r.exposed_communication);
  seconds(f, "exposed_exchange_s", r.exposed_exchange);
  seconds(f, "compute_s", r.compute);
  f.each("time_by_stage", [&](JsonFields& s) {
    StageTime t;
    s.read("stage", t.stage);
    seconds(s, "compute_s", t.compute);
    seconds(s, "exposed_communication_s", t.exposed_communication);
    seconds(s, "exposed_exchange_s", t.exposed_exchange);
    seconds(s, "bubble_s", t.bubble);
    r.time_by_stage.push_back(t);
  });
  f.each("operations", [&](JsonFields& s) {
    OperationTime o;
    s.read("name", o.name);
    seconds(s, "time_s", o.time);
    s.read("count", o.count);
    r.operations.push_back(std::move(o));
  });
  f.read("sent_bytes", r.sent_bytes);
  f.read_optional("cost_per_step", r.cost_per_step);
  f.read_optional("loss", r.loss);
  if (const auto* list = f.find("assumptions")) {
    if (!list->is_array()) {
      f.error("assumptions", "is not an array");
    } else {
      for (const auto& a : *list) {
        if (a.is_string()) {
          r.assumptions.push_back(a.get<std::string>());
        } else {
          f.error("assumptions", "holds something that is not a string");
        }
      }
    }
  }
  f.close();
  if (diagnostics.size() != before) return std::nullopt;
  return r;
}

}  // namespace orrery
