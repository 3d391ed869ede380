#include "cli/run_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "cli/common.hpp"
#include "cli/metrics_server.hpp"
#include "exec/run/op_runner.hpp"

namespace orrery {
namespace {

constexpr double picosecond = 1e-12;

/// The number that a text is, where it has nothing but digits.
std::optional<std::uint64_t> whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  return failure == std::errc{} ? value : ~std::uint64_t{0};
}

void append(const std::string& file, const std::string& text, bool anew) {
  std::ofstream out(file, anew ? std::ios::trunc : std::ios::app);
  if (!(out << text << std::flush)) throw Error("cannot write " + file);
}

/// A sample as Prometheus spells it; NaN and infinities have words of their own there.
std::string sample(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0.0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void declare_metrics(Command& c, MetricsFlags& flags) {
  c.option(
      "--metrics", flags.metrics,
      "figures of the run as text for Prometheus: a port of 127.0.0.1, or a file that is replaced after every step");
  c.option("--csv", flags.csv, "write a line of CSV for every step here: loss, times, tokens/s, memory");
}

std::uint16_t metrics_port(const MetricsFlags& flags) {
  const auto port = flags.metrics ? whole_number(*flags.metrics) : std::nullopt;
  return static_cast<std::uint16_t>(port.value_or(0));
}

void check_metrics(const MetricsFlags& flags) {
  for (const auto& [flag, value] : {std::pair{"--metrics", &flags.metrics}, {"--csv", &flags.csv}}) {
    refuse_standard_output(flag, *value);
  }
  const auto port = flags.metrics ? whole_number(*flags.metrics) : std::nullopt;
  if (port && (*port < 1 || *port > 65535)) {
    refuse("cli.metrics", fmt::format("--metrics: there is no port {}; ports are from 1 to 65535", *flags.metrics),
           {"A file whose name is a number has its folder with it: ./80."});
  }
  if (flags.metrics && !port) require_folder(*flags.metrics);
  if (flags.csv) require_folder(*flags.csv);
}

std::string prometheus_text(const RunFigures& f) {
  std::string out;
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    out +=
        fmt::format("# HELP orrery_{0} {1}\n# TYPE orrery_{0} {2}\norrery_{0} {3}\n", name, help, kind, sample(value));
  };
  add("step", "gauge", "Last step of the training that ended.", static_cast<double>(f.step));
  add("elapsed_seconds", "gauge", "Time since rank 0's process began to train.", f.elapsed_s);
  if (f.loss) add("loss", "gauge", "Loss of the last step.", *f.loss);
  if (f.step_s > 0.0) {
    add("step_seconds", "gauge", "Time of the last step, from its first operation to its last.", f.step_s);
    add("tokens_per_second", "gauge", "Tokens of the global batch over the time of the last step.", f.tokens_per_s);
    add("peak_memory_bytes", "gauge", "Largest peak of live tensors over the ranks, in the last step.",
        static_cast<double>(f.peak_bytes));
    add("sent_bytes", "gauge", "Bytes that all ranks sent in the last step.", static_cast<double>(f.sent_bytes));
  }
  add("restarts_total", "counter", "Restarts after failures.", static_cast<double>(f.restarts));
  return out;
}

namespace {

constexpr const char* csv_heading = "step,elapsed_s,loss,step_s,tokens_per_s,peak_memory_bytes,sent_bytes,restarts\n";

std::string csv_line(const RunFigures& f) {
  return fmt::format("{},{},{},{},{},{},{},{}\n", f.step, f.elapsed_s, f.loss ? fmt::format("{}", *f.loss) : "",
                     f.step_s, f.tokens_per_s, f.peak_bytes, f.sent_bytes, f.restarts);
}

}  // namespace

RunMetrics::RunMetrics(const MetricsFlags& flags, std::uint64_t first_step, double tokens_in_a_step,
                       std::uint64_t restarts, bool goes_on)
    : flags_(flags), first_step_(first_step), tokens_(tokens_in_a_step), began_(now_ns()) {
  figures_.step = first_step - 1;
  figures_.restarts = restarts;
  if (const std::uint16_t port = metrics_port(flags)) server_ = std::make_unique<MetricsServer>(port);
  if (flags.csv) {
    std::error_code missing;
    const bool begins = !goes_on || !std::filesystem::file_size(*flags.csv, missing) || missing;
    append(*flags.csv, begins ? csv_heading : "", begins);
  }
  publish();
}

RunMetrics::~RunMetrics() = default;

void RunMetrics::after(const RunEvent& event) {
  if (event.step == 0) return;
  figures_.step = first_step_ + event.step - 1;
  figures_.elapsed_s = static_cast<double>(now_ns() - began_) * 1e-9;
  figures_.loss = event.loss;
  std::int64_t end = 0;
  figures_.peak_bytes = figures_.sent_bytes = 0;
  for (const RankTrace& rank : event.trace->ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end);
    figures_.peak_bytes = std::max(figures_.peak_bytes, rank.peak_bytes);
    figures_.sent_bytes += rank.sent_bytes;
  }
  figures_.step_s = static_cast<double>(end) * picosecond;
  figures_.tokens_per_s = end > 0 ? tokens_ / figures_.step_s : 0.0;
  publish();
  if (flags_.csv) append(*flags_.csv, csv_line(figures_), false);
}

void RunMetrics::publish() {
  if (!flags_.metrics) return;
  const std::string text = prometheus_text(figures_);
  server_ ? server_->set(text) : write_file(*flags_.metrics, text);
}

}  // namespace orrery
