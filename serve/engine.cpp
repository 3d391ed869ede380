#include "serve/engine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/toml_reader.hpp"

namespace orrery {
namespace {

void read_costs(TomlTable& parent, std::vector<EngineFigure>& into) {
  std::optional<TomlTable> costs = parent.table("costs");
  if (!costs) return;
  for (std::size_t i = 0; i < engine_cost_count; ++i) {
    const auto cost = static_cast<EngineCost>(i);
    const std::string key(name_of(cost));
    if (!costs->has(key)) continue;
    std::optional<TomlTable> row = costs->table(key);
    if (!row) continue;
    EngineFigure f;
    f.cost = cost;
    // Times are at most a second; factors are at most 100.
    const Limits<double> limits{0.0, is_factor(cost) ? 100.0 : 1.0, true};
    row->read("value", f.value, limits);
    f.prior = f.value;
    row->read("prior", f.prior, limits, Need::optional);
    row->read("spread", f.spread, {0.0, 5.0}, Need::optional);
    row->finish();
    into.push_back(f);
  }
  costs->finish();
}

Engine read_engine(TomlTable& t) {
  Engine e;
  t.read("name", e.name, Need::required, 40);
  t.read("title", e.title, Need::required, 80);
  t.read("source", e.source);
  t.read("step_tokens", e.batch.tokens, {16, 1U << 20});
  t.read("most_sequences", e.batch.sequences, {1, 1U << 20});
  t.read("reserves", e.batch.reserves);
  t.read("memory_share", e.memory.share, {0.0, 1.0, true});
  t.read("memory_of_the_rest", e.memory.of_the_rest);
  t.read("held", e.memory.held, {Bytes{}, 1024.0 * gibibyte});
  t.read("kv_fp8", e.kv_fp8);
  std::vector<std::string> formats;
  t.read("formats", formats, 16);
  for (const std::string& f : formats) {
    const auto& names = weight_format_names();
    const auto at = std::find(names.begin(), names.end(), f);
    if (at == names.end()) {
      t.error("formats", "file.choice", fmt::format("\"{}\" is no format of weights", f),
              {fmt::format("Formats: {}.", fmt::join(names, ", "))});
    } else {
      e.formats.push_back(static_cast<WeightFormat>(at - names.begin()));
    }
  }
  read_costs(t, e.own);
  for (TomlTable& r : t.tables("refuses", 100, Need::optional)) {
    EngineRefusal refusal;
    if (r.read("what", refusal.what) &&
        std::find(refusable_choices().begin(), refusable_choices().end(), refusal.what) == refusable_choices().end()) {
      r.error("what", "file.choice", fmt::format("\"{}\" is no choice that an engine refuses", refusal.what),
              {fmt::format("Choices: {}.", fmt::join(refusable_choices(), ", "))});
    }
    r.read("because", refusal.because);
    r.read("instead", refusal.instead);
    r.finish();
    e.refuses.push_back(std::move(refusal));
  }
  t.finish();
  return e;
}

std::optional<EngineTable> read_table(std::optional<TomlTable> root, Diagnostics& d) {
  const std::size_t before = d.size();
  if (!root || !read_schema(*root, "engines", 1)) return std::nullopt;
  EngineTable out;
  read_costs(*root, out.shared);
  for (TomlTable& t : root->tables("engines", 100)) {
    Engine e = read_engine(t);
    std::array<int, engine_cost_count> times{};
    for (const EngineFigure& f : out.shared) ++times[static_cast<std::size_t>(f.cost)];
    for (const EngineFigure& f : e.own) ++times[static_cast<std::size_t>(f.cost)];
    for (std::size_t i = 0; i < engine_cost_count; ++i) {
      if (times[i] == 1) continue;
      t.error("name", "serve.engines",
              fmt::format("the cost {} of {} stands {}", name_of(static_cast<EngineCost>(i)), e.name,
                          times[i] == 0 ? "nowhere" : "twice"),
              {"Each stands once: in [costs], for all engines, or in the engine's own."});
    }
    out.engines.push_back(std::move(e));
  }
  root->finish();
  if (d.size() != before) return std::nullopt;
  out.set_costs();
  return out;
}

/// The names by which refusals call the choices of a plan.
std::vector<std::string> choices_of(const ServingPlan& p, const ModelSpec& m) {
  std::vector<std::string> out;
  if (p.pipeline > 1) out.emplace_back("pipeline");
  if (p.attention_data > 1) out.emplace_back(m.mixture ? "attention-dp" : "attention-dp of dense models");
  if (p.attention_data > 1 && p.tensor > 1) out.emplace_back("attention-dp with tensor");
  if (p.expert > 1 && p.expert < p.stage_devices()) out.emplace_back("experts in slices over groups");
  return out;
}

}  // namespace

const std::vector<std::string_view>& refusable_choices() {
  static const std::vector<std::string_view> words{"pipeline", "attention-dp", "attention-dp of dense models",
                                                   "attention-dp with tensor", "experts in slices over groups"};
  return words;
}

const Engine* EngineTable::find(std::string_view name) const {
  const auto at = std::find_if(engines.begin(), engines.end(), [&](const Engine& e) { return e.name == name; });
  return at == engines.end() ? nullptr : &*at;
}

std::vector<std::string> EngineTable::names() const {
  std::vector<std::string> out;
  for (const Engine& e : engines) out.push_back(e.name);
  return out;
}

void EngineTable::set_costs() {
  for (Engine& e : engines) {
    for (const EngineFigure& f : shared) e.costs[f.cost] = f.value;
    for (const EngineFigure& f : e.own) e.costs[f.cost] = f.value;
  }
}

std::optional<EngineTable> read_engines(const std::filesystem::path& file, Diagnostics& d) {
  return read_table(open_toml(file, d), d);
}

std::optional<EngineTable> parse_engines(std::string text, std::string name, Diagnostics& d) {
  return read_table(parse_toml(std::move(text), std::move(name), d), d);
}

std::filesystem::path engines_path(const Library& library) { return library.directory() / "serving" / "engines.toml"; }

void check_engine(const Engine& e, const ServingPlan& p, const ModelSpec& m, Diagnostics& d) {
  const auto has = [&](WeightFormat f) { return std::find(e.formats.begin(), e.formats.end(), f) != e.formats.end(); };
  for (const WeightFormat f : {p.weights, p.experts}) {
    if (has(f) || (f == p.experts && f != p.weights && !m.mixture)) continue;
    std::vector<std::string_view> known;
    for (const WeightFormat k : e.formats) known.push_back(name_of(k));
    d.error("serve.engine", fmt::format("{} does not serve {} weights", e.title, name_of(f)),
            {fmt::format("It serves {}.", fmt::join(known, ", "))});
    break;
  }
  if (p.kv_fp8 && !e.kv_fp8) {
    d.error("serve.engine", fmt::format("{} keeps no keys in fp8", e.title), {"--kv bf16 goes with it."});
  }
  const std::vector<std::string> choices = choices_of(p, m);
  for (const EngineRefusal& r : e.refuses) {
    if (std::find(choices.begin(), choices.end(), r.what) == choices.end()) continue;
    d.error("serve.engine", fmt::format("{} has no {}: {}", e.title, r.what, r.because), {r.instead});
  }
}

}  // namespace orrery
