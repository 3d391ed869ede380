#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/serve_text.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"

namespace orrery {

RequestFigures request_figures(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  const auto rank = [&](double share) {
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(v.size())));
    return v[std::clamp<std::size_t>(at, 1, v.size()) - 1];
  };
  double sum = 0.0;
  for (const double x : v) sum += x;
  return {sum / static_cast<double>(v.size()), rank(0.5), rank(0.9), rank(0.99)};
}

namespace {

using Json = nlohmann::ordered_json;

bool is_measured(const ServedRequest& r) { return r.first_token && r.last_token; }

/// Requests from `first` on without measured times.
std::size_t unmeasured(const PlayedTrace& p, std::size_t first) {
  return static_cast<std::size_t>(std::count_if(p.trace.begin() + static_cast<std::ptrdiff_t>(first), p.trace.end(),
                                                [](const ServedRequest& r) { return !is_measured(r); }));
}

/// Whether measured times stand beside predicted ones; both are then of the measured requests alone.
bool compares(const PlayedTrace& p, std::size_t first) { return unmeasured(p, first) < p.trace.size() - first; }

/// TTFT, TPOT and latency of requests from `first` on, in seconds; of those with more than one token for TPOT.
struct PlayedFigures {
  RequestFigures ttft, tpot, latency;
};

template <class First, class Last>
PlayedFigures figures_of(const PlayedTrace& p, std::size_t first, const First& first_token, const Last& last_token) {
  std::vector<double> ttft, tpot, latency;
  const bool measured = compares(p, first);
  for (std::size_t i = first; i < p.trace.size(); ++i) {
    const ServedRequest& r = p.trace[i];
    if (measured && !is_measured(r)) continue;
    ttft.push_back((first_token(i) - r.arrival).in(second));
    latency.push_back((last_token(i) - r.arrival).in(second));
    if (r.output > 1) tpot.push_back((last_token(i) - first_token(i)).in(second) / (r.output - 1.0));
  }
  return {request_figures(std::move(ttft)), request_figures(std::move(tpot)), request_figures(std::move(latency))};
}

PlayedFigures predicted_of(const PlayedTrace& p, std::size_t first) {
  return figures_of(
      p, first, [&](std::size_t i) { return p.result.requests[i].first_token; },
      [&](std::size_t i) { return p.result.requests[i].last_token; });
}

PlayedFigures measured_of(const PlayedTrace& p, std::size_t first) {
  return figures_of(
      p, first, [&](std::size_t i) { return *p.trace[i].first_token; },
      [&](std::size_t i) { return *p.trace[i].last_token; });
}

void rows(Table& t, const char* what, const RequestFigures& predicted, const RequestFigures* measured) {
  const auto time = [](double s) { return short_text(Seconds::of(s)); };
  t.row({what, "predicted", time(predicted.mean), time(predicted.median), time(predicted.p90), time(predicted.p99)});
  if (measured == nullptr) return;
  t.row({"", "measured", time(measured->mean), time(measured->median), time(measured->p90), time(measured->p99)});
  const auto off = [](double a, double b) { return b > 0.0 ? fmt::format("{:+.1f} %", 100.0 * (a / b - 1.0)) : ""; };
  t.row({"", "error", off(predicted.mean, measured->mean), off(predicted.median, measured->median),
         off(predicted.p90, measured->p90), off(predicted.p99, measured->p99)});
}

Json figures_json(const PlayedFigures& f) {
  Json out;
  for (const auto& [name, r] : {std::pair{"ttft_s", &f.ttft}, {"tpot_s", &f.tpot}, {"latency_s", &f.latency}}) {
    out[name] = {{"mean", r->mean}, {"median", r->median}, {"p90", r->p90}, {"p99", r->p99}};
  }
  return out;
}

}  // namespace

std::string played_text(const PlayedTrace& p) {
  const std::size_t first = p.fitted < p.trace.size() ? p.fitted : 0;
  std::string out = fmt::format("\n{} one by one, in {}: {}, {}, {} blocks of {} tokens for KV at most, of {}\n",
                                counted(p.trace.size(), "request"), p.name, counted(p.result.steps, "step"),
                                counted(p.result.preemptions, "preemption"), p.result.most_blocks,
                                p.limits.block_tokens, p.limits.blocks);
  if (p.fitted > 0) {
    out += fmt::format("Steps take {:.3f} of what datasheets say, fitted to the first {}; the others:\n", p.pace,
                       counted(p.fitted, "request"));
  }
  const bool measured = compares(p, first);
  if (measured && unmeasured(p, first) > 0) {
    out += fmt::format("{} without measured times, or with times out of order, left out of these figures:\n",
                       counted(unmeasured(p, first), "request"));
  }
  const PlayedFigures a = predicted_of(p, first);
  const PlayedFigures b = measured ? measured_of(p, first) : PlayedFigures{};
  Table table({"", "<", "mean", "median", "p90", "p99"});
  rows(table, "TTFT", a.ttft, measured ? &b.ttft : nullptr);
  rows(table, "TPOT", a.tpot, measured ? &b.tpot : nullptr);
  rows(table, "latency", a.latency, measured ? &b.latency : nullptr);
  return out + table.str();
}

nlohmann::ordered_json played_json(const PlayedTrace& p) {
  const std::size_t first = p.fitted < p.trace.size() ? p.fitted : 0;
  Json out;
  out["trace"] = p.name;
  out["requests"] = p.trace.size();
  out["counted_from"] = first;
  out["pace"] = p.pace;
  out["steps"] = p.result.steps;
  out["preemptions"] = p.result.preemptions;
  out["blocks"] = p.limits.blocks;
  out["most_blocks"] = p.result.most_blocks;
  out["end_s"] = p.result.end.in(second);
  out["predicted"] = figures_json(predicted_of(p, first));
  out["without_measured_times"] = unmeasured(p, first);
  out["measured"] = compares(p, first) ? figures_json(measured_of(p, first)) : Json(nullptr);
  out["each"] = Json::array();
  for (std::size_t i = 0; i < p.trace.size(); ++i) {
    const ServedRequest& r = p.trace[i];
    out["each"].push_back({{"arrival_s", r.arrival.in(second)},
                           {"input", r.input},
                           {"output", r.output},
                           {"first_token_s", p.result.requests[i].first_token.in(second)},
                           {"last_token_s", p.result.requests[i].last_token.in(second)},
                           {"preemptions", p.result.requests[i].preemptions}});
  }
  return out;
}

}  // namespace orrery
