#include "serve/request_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/random.hpp"
#include "core/base/toml_reader.hpp"

namespace orrery {
namespace {

using Names = std::vector<const char*>;
const Names arrival_names{"arrival", "arrival_time", "arrived_at"};
const Names input_names{"input", "input_toks", "num_prefill_tokens"};
const Names output_names{"output", "output_toks", "num_decode_tokens"};
constexpr double most_tokens = 1e8;
constexpr std::size_t most_mistakes = 20;

class TraceReader {
 public:
  TraceReader(Origin origin, Diagnostics& d) : origin_(std::move(origin)), d_(d) {}

  std::vector<ServedRequest> json_lines() {
    std::vector<ServedRequest> out;
    std::size_t begin = 0;
    for (std::uint32_t line = 1; begin < origin_.text.size() && d_.size() < most_mistakes; ++line) {
      const std::size_t end = std::min(origin_.text.find('\n', begin), origin_.text.size());
      const std::string text = origin_.text.substr(begin, end - begin);
      begin = end + 1;
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
      if (!j.is_object()) {
        error({line, 1}, "the line is no JSON object");
        continue;
      }
      const auto number = [&](const char* name) -> std::optional<double> {
        const auto at = j.find(name);
        if (at == j.end() || !at->is_number()) return std::nullopt;
        return at->get<double>();
      };
      const auto first_of = [&](const Names& names) -> std::optional<double> {
        for (const char* n : names) {
          if (const auto v = number(n)) return v;
        }
        return std::nullopt;
      };
      auto r = request({line, 1}, first_of(arrival_names), first_of(input_names), first_of(output_names));
      if (!r) continue;
      // These three are on a clock of their own, which the request's arrival ties to the other.
      const auto queued = number("queued_ts"), first = number("first_token_ts"), last = number("last_token_ts");
      if (queued && first && last && *first >= *queued && *last >= *first) {
        r->first_token = r->arrival + Seconds::of(*first - *queued);
        r->last_token = r->arrival + Seconds::of(*last - *queued);
      }
      out.push_back(*r);
    }
    return out;
  }

  std::vector<ServedRequest> csv() {
    std::vector<ServedRequest> out;
    const std::vector<CsvRow> rows = read_csv(origin_, d_);
    if (rows.empty() || !d_.empty()) return out;
    const auto column = [&](const Names& names) {
      for (const char* n : names) {
        for (std::size_t i = 0; i < rows.front().size(); ++i) {
          if (rows.front()[i].text == n) return i;
        }
      }
      error({1, 1}, fmt::format("no column is called {}", names.front()));
      return std::size_t{0};
    };
    const std::size_t at = column(arrival_names), in = column(input_names), made = column(output_names);
    if (!d_.empty()) return out;
    for (std::size_t i = 1; i < rows.size() && d_.size() < most_mistakes; ++i) {
      const auto number = [&](std::size_t c) -> std::optional<double> {
        if (c >= rows[i].size()) return std::nullopt;
        const std::string& text = rows[i][c].text;
        double v = 0.0;
        const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), v);
        if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
        return v;
      };
      if (auto r = request(rows[i].front().at, number(at), number(in), number(made))) out.push_back(*r);
    }
    return out;
  }

  void error(Position at, std::string what) {
    d_.error_at(origin_, at, "serve.trace", std::move(what),
                {"A request has arrival (seconds), input and output (tokens): docs/serve.md."});
  }

 private:
  std::optional<ServedRequest> request(Position at, std::optional<double> arrival, std::optional<double> input,
                                       std::optional<double> output) {
    const auto tokens = [](const std::optional<double>& v) { return v && *v >= 1.0 && *v <= most_tokens; };
    const auto part = [](const std::optional<double>& v) { return v && *v != std::floor(*v); };
    if (!arrival || !std::isfinite(*arrival) || !tokens(input) || !tokens(output)) {
      error(at, "the request lacks its arrival, or at least one token of input and of output");
      return std::nullopt;
    }
    if (part(input) || part(output)) {
      error(at, fmt::format("{} tokens are no whole number", part(input) ? *input : *output));
      return std::nullopt;
    }
    ServedRequest r;
    r.arrival = Seconds::of(*arrival);
    r.input = static_cast<std::uint32_t>(*input);
    r.output = static_cast<std::uint32_t>(*output);
    return r;
  }

  Origin origin_;
  Diagnostics& d_;
};

}  // namespace

std::optional<std::vector<ServedRequest>> parse_trace(std::string text, std::string name, Diagnostics& d) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && text[first] == '{';
  Diagnostics found;
  TraceReader reader({std::move(name), std::move(text), {}}, found);
  std::vector<ServedRequest> out = json ? reader.json_lines() : reader.csv();
  if (found.empty() && out.empty()) reader.error({1, 1}, "the trace has no requests");
  for (const Diagnostic& m : found.list()) d.add(m);
  if (!found.empty()) return std::nullopt;
  std::stable_sort(out.begin(), out.end(),
                   [](const ServedRequest& a, const ServedRequest& b) { return a.arrival < b.arrival; });
  const Seconds begin = out.front().arrival;
  for (ServedRequest& r : out) {
    r.arrival -= begin;
    if (r.first_token) *r.first_token -= begin;
    if (r.last_token) *r.last_token -= begin;
  }
  return out;
}

std::optional<std::vector<ServedRequest>> read_trace(const std::filesystem::path& file, Diagnostics& d) {
  std::optional<std::string> text = read_text(file, d, std::size_t{256} << 20);
  if (!text) return std::nullopt;
  return parse_trace(std::move(*text), file.string(), d);
}

std::vector<ServedRequest> poisson_requests(std::uint32_t count, double per_second, std::uint32_t input,
                                            std::uint32_t output, std::uint64_t seed) {
  std::vector<ServedRequest> out(count);
  Seconds at;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i > 0) at += Seconds::of(-std::log1p(-random_uniform(seed, stream_of("arrivals"), i)) / per_second);
    out[i].arrival = at;
    out[i].input = input;
    out[i].output = output;
  }
  return out;
}

}  // namespace orrery
