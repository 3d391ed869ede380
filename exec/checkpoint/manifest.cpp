#include "exec/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/plan/plan_file.hpp"
#include "core/record/json_fields.hpp"
#include "core/spec/spec_files.hpp"
#include "exec/checkpoint/checksum.hpp"

namespace orrery {
namespace {

using nlohmann::json;

constexpr const char* file_code = "checkpoint.file";
constexpr std::size_t last_line = 15;  // "crc32 0123abcd\n"

std::string checksum_line(std::string_view text) {
  return fmt::format("crc32 {:08x}\n", crc32_of(std::as_bytes(std::span(text))));
}

/// The model without its name, so that names do not matter.
ModelSpec unnamed(ModelSpec m) {
  m.name.clear();
  m.source.clear();
  return m;
}

/// The text "key = value" of every line of a TOML file without tables inside tables.
std::map<std::string, std::string> lines_of(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream in(text);
  std::string table;
  for (std::string line; std::getline(in, line);) {
    const std::size_t equal = line.find(" = ");
    if (line.starts_with("[")) table = line + " ";
    if (equal != std::string::npos) {
      lines[(table == "[workload] " ? "" : table) + line.substr(0, equal)] = line.substr(equal + 3);
    }
  }
  return lines;
}

}  // namespace

Manifest manifest_of(const PlannedRun& run, std::uint64_t step) {
  return {step, write_model(run.model), write_workload(run.workload), write_plan(run), {}};
}

std::string write_manifest(const Manifest& m) {
  nlohmann::ordered_json out = {
      {"version", 1}, {"step", m.step}, {"model", m.model}, {"workload", m.workload}, {"plan", m.plan}};
  out["ranks"] = json::array();
  for (const RankFileEntry& r : m.ranks) out["ranks"].push_back({{"bytes", r.bytes}, {"checksum", r.checksum}});
  const std::string text = out.dump(1) + "\n";
  return text + checksum_line(text);
}

std::optional<Manifest> read_manifest(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  Diagnostics found;
  const auto refuse = [&](const char* code, std::string message, std::vector<std::string> details) {
    found.add({file, {}, code, std::move(message), std::move(details), {}, {}});
  };
  Manifest m;
  json value;
  const std::string_view body = text.substr(0, text.size() - std::min(text.size(), last_line));
  const std::string_view end = text.substr(body.size());
  if (const std::string line = checksum_line(body); end != line) {
    refuse("checkpoint.damaged", "the manifest has changed since it was written",
           {fmt::format("The first {} bytes have the checksum {}.", body.size(), line.substr(6, 8)),
            "The last line gives another checksum, or none."});
  } else if (parse_json(body, file, file_code, found, value)) {
    JsonFields fields(value, "", file, file_code, found);
    std::uint64_t version = 0;
    fields.read("version", version);
    if (found.empty() && version != 1) {
      refuse("checkpoint.version", fmt::format("this is version {} of a checkpoint", version),
             {"This program reads version 1. The program that wrote it can read it."});
    } else if (found.empty()) {
      fields.read("step", m.step);
      fields.read("model", m.model);
      fields.read("workload", m.workload);
      fields.read("plan", m.plan);
      fields.each("ranks", [&](JsonFields& f) {
        RankFileEntry& r = m.ranks.emplace_back();
        f.read("bytes", r.bytes);
        f.read("checksum", r.checksum);
      });
      fields.close();
      // The limit is far above any text; a reader's messages about each line of a long text take time that grows with
      // its square.
      constexpr std::size_t most_text = 65536;
      for (const auto& [key, given] : {std::pair{"model", &m.model}, std::pair{"workload", &m.workload}}) {
        if (given->size() <= most_text) continue;
        fields.error(key, fmt::format("has {} bytes, but at most {} are read", given->size(), most_text));
      }
      if (found.empty() && (m.ranks.empty() || m.step > (std::uint64_t{1} << 53))) {
        fields.error("ranks", "or step are out of range");
      }
      if (found.empty()) {
        static_cast<void>(parse_model(m.model, file + ": model", found));
        static_cast<void>(parse_workload(m.workload, file + ": workload", found));
      }
    }
  }
  for (const Diagnostic& d : found.list()) diagnostics.add(d);
  if (!found.empty()) return std::nullopt;
  return m;
}

ModelSpec model_of(const Manifest& m) {
  Diagnostics none;
  const auto model = parse_model(m.model, "", none);
  ORRERY_ASSERT(model.has_value());
  return *model;
}

Workload workload_of(const Manifest& m) {
  Diagnostics none;
  const auto workload = parse_workload(m.workload, "", none);
  ORRERY_ASSERT(workload.has_value());
  return *workload;
}

void check_resume(const Manifest& m, const PlannedRun& run, const std::string& file, Diagnostics& diagnostics) {
  const auto refuse = [&](const char* code, std::string message, std::vector<std::string> details) {
    diagnostics.add({file, {}, code, std::move(message), std::move(details), {}, {}});
  };
  const ModelSpec model = model_of(m);
  if (!(unnamed(model) == unnamed(run.model))) {
    const auto size = [](const ModelSpec& s) {
      return fmt::format("{}: {} layers of width {}, vocabulary {}, {} parameters", s.name, s.layers, s.hidden,
                         s.vocabulary, parameter_count(s));
    };
    refuse("checkpoint.model", "the checkpoint is from another model",
           {fmt::format("It holds {}.", size(model)), fmt::format("The plan trains {}.", size(run.model)),
            "Plans of the same model can go on from it; its text is in the manifest."});
  }
  const Workload old = workload_of(m);
  const Workload& now = run.workload;
  const auto states = [](const Workload& w) {
    return fmt::format("precision {}{}, optimizer {} with {} moments in {}", name_of(w.precision),
                       w.master_weights ? "" : " without master weights", name_of(w.optimizer.kind),
                       has_factored_moments(w) ? 1 : optimizer_moments(w), name_of(moment_dtype(w)));
  };
  if (states(old) != states(now)) {
    refuse("checkpoint.states", "the checkpoint's states are of another kind",
           {fmt::format("It has {}.", states(old)), fmt::format("The plan has {}.", states(now)),
            "These must be the same; learning rate, batch and data may change."});
  }
  const auto trained = [&](const Workload& w) {
    if (!w.adapters) return std::string("all weights");
    const Adapters& a = *w.adapters;
    return fmt::format(
        "adapters of rank {} of {}{}{}", a.rank, matrices_text(a),
        a.base == BaseWeights::unquantized ? "" : fmt::format(", beside matrices in {}", name_of(a.base)),
        a.double_quantization ? " with scales in 8 bits" : "");
  };
  const auto shape = [&](const Workload& w) {
    const Adapters a = w.adapters.value_or(Adapters{.rank = 0, .matrices = 0});
    return std::tuple(a.rank, matrices_of(run.model, a), a.base, a.double_quantization);
  };
  if (shape(old) != shape(now)) {
    refuse("checkpoint.adapters", "the checkpoint is of a run that trained other weights",
           {fmt::format("It trained {}.", trained(old)), fmt::format("The plan trains {}.", trained(now)),
            "Rank, matrices and what the frozen ones are kept in must be the same; alpha may change. Full training and "
            "adapters do not go on from each other."});
  } else if (now.adapters && now.adapters->base != BaseWeights::unquantized && old.seed != now.seed) {
    refuse("checkpoint.adapters", "the checkpoint's adapters were trained beside other frozen weights",
           {fmt::format("Matrices in {} are not saved: setup makes them again from the seed, which was {}.",
                        name_of(now.adapters->base), old.seed),
            fmt::format("The plan's seed is {}.", now.seed)});
  }
}

std::vector<std::string> workload_changes(const Manifest& m, const PlannedRun& run) {
  const auto old = lines_of(m.workload), now = lines_of(write_workload(run.workload));
  std::vector<std::string> changes;
  for (const auto& [key, value] : now) {
    const auto before = old.find(key);
    if (before == old.end()) {
      changes.push_back(fmt::format("{} = {} (it was not given)", key, value));
    } else if (before->second != value) {
      changes.push_back(fmt::format("{} = {} (it was {})", key, value, before->second));
    }
  }
  for (const auto& [key, value] : old) {
    if (!now.contains(key)) changes.push_back(fmt::format("{} is not given (it was {})", key, value));
  }
  return changes;
}

}  // namespace orrery
