#include "core/record/report_file.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/record/json_fields.hpp"

namespace orrery {

using nlohmann::ordered_json;

namespace {

/// In the order of DeviceBasis::Kind.
const std::vector<std::string_view>& basis_names() {
  static const std::vector<std::string_view> names{"measured", "fitted", "relative", "datasheet", "nominal"};
  return names;
}

/// The rates at the two ends of the interval: the longest step has the lowest rates.
ordered_json interval_json(const Report& r) {
  const double fastest = r.step_time / r.interval->low;
  const double slowest = r.step_time / r.interval->high;
  ordered_json j;
  j["share"] = 0.8;
  j["step_time_low_s"] = r.interval->low.base();
  j["step_time_high_s"] = r.interval->high.base();
  const auto rate = [&](const std::string& name, double value) {
    j[name + "_low"] = slowest * value;
    j[name + "_high"] = fastest * value;
  };
  rate("tokens_per_s", r.tokens_per_s);
  rate("tokens_per_s_per_gpu", r.tokens_per_s_per_gpu);
  rate("model_flops_utilization", r.model_flops_utilization);
  return j;
}

DeviceBasis read_basis(JsonFields& s) {
  DeviceBasis b;
  std::string kind;
  s.read("device", b.device);
  s.read("basis", kind);
  const auto at = std::find(basis_names().begin(), basis_names().end(), kind);
  if (at == basis_names().end()) {
    s.error(s.at("basis"), "is none of measured, fitted, relative, datasheet, nominal");
  } else {
    b.kind = static_cast<DeviceBasis::Kind>(at - basis_names().begin());
  }
  s.read("runs", b.runs);
  s.read_optional("within_pct", b.within_pct);
  s.read("text", b.text);
  return b;
}

}  // namespace

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
  if (r.peak_memory_reserved_bytes) j["peak_memory_reserved_bytes"] = *r.peak_memory_reserved_bytes;
  if (r.peak_memory_process_bytes) j["peak_memory_process_bytes"] = *r.peak_memory_process_bytes;
  if (r.peak_memory_setup_bytes) j["peak_memory_setup_bytes"] = *r.peak_memory_setup_bytes;
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
    if (m.reserved) s["reserved_bytes"] = *m.reserved;
    if (m.process) s["process_bytes"] = *m.process;
    if (m.capacity) s["capacity_bytes"] = *m.capacity;
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
  if (r.cost_per_step) {
    j["cost_per_step"] = *r.cost_per_step;
    j["cost_currency"] = r.cost_currency;
  }
  if (r.loss) j["loss"] = *r.loss;
  if (!r.software.empty()) {
    j["software"] = {{"name", r.software}, {"assumed", r.software_assumed}, {"costs", r.software_costs}};
  }
  if (r.interval) j["interval"] = interval_json(r);
  for (const DeviceBasis& b : r.devices) {
    ordered_json s{{"device", b.device}, {"basis", basis_names()[static_cast<std::size_t>(b.kind)]}, {"runs", b.runs}};
    if (b.within_pct) s["within_pct"] = *b.within_pct;
    s["text"] = b.text;
    j["devices"].push_back(std::move(s));
  }
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
  f.read_optional("peak_memory_reserved_bytes", r.peak_memory_reserved_bytes);
  f.read_optional("peak_memory_process_bytes", r.peak_memory_process_bytes);
  f.read_optional("peak_memory_setup_bytes", r.peak_memory_setup_bytes);
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
    s.read_optional("reserved_bytes", m.reserved);
    s.read_optional("process_bytes", m.process);
    s.read_optional("capacity_bytes", m.capacity);
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
  std::optional<std::string> currency;
  f.read_optional("cost_currency", currency);
  r.cost_currency = currency.value_or("");
  f.read_optional("loss", r.loss);
  const auto texts = [](JsonFields& fields, const char* key, std::vector<std::string>& to) {
    const auto* list = fields.find(key);
    if (list == nullptr) return;
    if (!list->is_array()) return fields.error(fields.at(key), "is not an array");
    for (const auto& a : *list) {
      if (a.is_string()) {
        to.push_back(a.get<std::string>());
      } else {
        fields.error(fields.at(key), "holds something that is not a string");
      }
    }
  };
  if (f.has("software")) {
    JsonFields s(*f.find("software"), "software", file, code, diagnostics);
    s.read("name", r.software);
    std::optional<bool> assumed;
    s.read_optional("assumed", assumed);
    r.software_assumed = assumed.value_or(false);
    texts(s, "costs", r.software_costs);
    s.close();
  }
  if (f.has("interval")) {
    // Rates follow from the step time: they are written only for other programs.
    JsonFields s(*f.find("interval"), "interval", file, code, diagnostics);
    StepInterval interval;
    seconds(s, "step_time_low_s", interval.low);
    seconds(s, "step_time_high_s", interval.high);
    double follows = 0.0;
    for (const char* key : {"share", "tokens_per_s_low", "tokens_per_s_high", "tokens_per_s_per_gpu_low",
                            "tokens_per_s_per_gpu_high", "model_flops_utilization_low", "model_flops_utilization_high"})
      s.read(key, follows);
    s.close();
    r.interval = interval;
  }
  if (f.has("devices")) f.each("devices", [&](JsonFields& s) { r.devices.push_back(read_basis(s)); });
  texts(f, "assumptions", r.assumptions);
  f.close();
  if (diagnostics.size() != before) return std::nullopt;
  return r;
}

}  // namespace orrery
