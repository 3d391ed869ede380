#include <cmath>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/record/chrome_trace.hpp"
#include "core/record/json_fields.hpp"

namespace orrery {
namespace {

/// Describes a trace that orrery did not write, as far as its first bytes, or the keys of its object, tell.
std::string foreign_bytes(std::string_view text) {
  if (text.starts_with("SQLite format 3")) return "an SQLite file, as Nsight Systems exports";
  if (text.starts_with("\x1f\x8b")) return "compressed with gzip";
  return {};
}
std::string foreign_object(const nlohmann::json& root) {
  if (root.is_array()) return "a list of events without its writer's name";
  if (root.contains("schemaVersion") || root.contains("deviceProperties") || root.contains("distributedInfo")) {
    return "from PyTorch's profiler (Kineto)";
  }
  if (root.contains("traceEvents")) return "from another program";
  return {};
}

}  // namespace

bool looks_like_trace(std::string_view text) {
  const std::string_view start = text.substr(0, 200);
  return start.find("\"orrery\"") != std::string_view::npos && start.find("\"trace\"") != std::string_view::npos;
}

std::optional<Trace> read_chrome_trace(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                                       const WorkProgress& progress) {
  using nlohmann::json;
  const std::string code = "trace.json";
  const auto fail = [&](const std::string& message) {
    diagnostics.add({file, {}, code, message, {}, {}});
    return std::nullopt;
  };
  const auto refuse = [&](const std::string& whose) {
    Diagnostic m;
    m.file = file;
    m.code = code;
    m.message = "this trace is " + whose + ", not one that orrery wrote";
    m.details.push_back(whose.ends_with("gzip")
                            ? "gunzip unpacks it."
                            : "orrery run --trace and orrery simulate --trace name each operation of the plan.  From "
                              "other programs, orrery compare reads what torch.profiler's export_chrome_trace writes.");
    diagnostics.add(std::move(m));
    return std::nullopt;
  };
  if (const std::string whose = foreign_bytes(text); !whose.empty()) return refuse(whose);
  struct Slice {
    std::uint64_t rank;
    std::uint64_t op;
    Span span;
  };
  std::vector<Slice> slices;
  std::string bad_event;
  const auto take = [&](const json& e) {
    if (!e.is_object() || e.value("ph", json()) != "X") return;
    const auto args = e.find("args");
    if (args == e.end() || !args->is_object() || !args->contains("op")) return;
    const auto number = [&](const json& object, const char* key) -> const json* {
      const auto found = object.find(key);
      return found != object.end() && found->is_number() ? &*found : nullptr;
    };
    const json* pid = number(e, "pid");
    const json* op = number(*args, "op");
    const json* ts = number(e, "ts");
    const json* dur = number(e, "dur");
    constexpr double most = 9e9;  // microseconds: whole picoseconds fit a double
    const bool fine = pid != nullptr && op != nullptr && ts != nullptr && dur != nullptr && pid->is_number_unsigned() &&
                      op->is_number_unsigned() && std::abs(ts->get<double>()) < most && dur->get<double>() >= 0.0 &&
                      dur->get<double>() < most;
    if (!fine) {
      if (bad_event.empty()) bad_event = e.dump().substr(0, 120);
      return;
    }
    const std::int64_t start = std::llround(ts->get<double>() * 1e6);
    slices.push_back(
        {pid->get<std::uint64_t>(), op->get<std::uint64_t>(), {start, start + std::llround(dur->get<double>() * 1e6)}});
  };
  json root;
  JsonReading reading;
  // Events are taken one by one and dropped, so a long trace does not stay in memory as JSON.
  reading.keep = [&](int depth, const json& value) {
    if (depth != 2) return true;
    take(value);
    return false;
  };
  reading.progress = progress;
  if (!parse_json(text, file, code, diagnostics, root, reading)) return std::nullopt;
  if (!bad_event.empty())
    return fail("an event with args.op lacks pid, ts or dur, or they are out of range: " + bad_event);
  const json* own = root.is_object() && root.contains("orrery") ? &root["orrery"] : nullptr;
  if (own == nullptr) {
    if (const std::string whose = foreign_object(root); !whose.empty()) return refuse(whose);
  }
  if (own == nullptr || !own->is_object() || own->value("trace", json()) != 1) {
    return fail("this is not a trace of version 1 that orrery wrote: the key \"orrery\" is missing or different");
  }
  Trace trace;
  const std::size_t before = diagnostics.size();
  JsonFields f(*own, "orrery", file, code, diagnostics);
  std::uint64_t version = 0;
  std::string plan;
  std::string lanes;
  f.read("trace", version);
  f.read("origin", trace.origin);
  f.read("plan", plan);
  f.read("lanes", lanes);
  if (lanes != "concurrent" && lanes != "serial") f.error(f.at("lanes"), "is neither \"concurrent\" nor \"serial\"");
  trace.concurrent_lanes = lanes == "concurrent";
  std::map<std::uint64_t, std::size_t> place;
  std::uint64_t most_ops = slices.size();
  std::vector<std::vector<bool>> seen;
  f.each("ranks", [&](JsonFields& r) {
    std::uint32_t rank = 0;
    std::uint64_t ops = 0;
    RankTrace out;
    r.read("rank", rank);
    r.read("ops", ops);
    r.read("peak_bytes", out.peak_bytes);
    r.read("sent_bytes", out.sent_bytes);
    const json* untimed = r.find("untimed");
    if (untimed == nullptr || !untimed->is_array() || untimed->size() % 2 != 0) {
      r.error(r.at("untimed"), "is not a list of pairs");
      return;
    }
    // Every op has an event or a pair of its own, so the file bounds what is stored.
    most_ops += untimed->size() / 2;
    if (ops > most_ops) {
      r.error(r.at("ops"), "is more than the file has events");
      return;
    }
    most_ops -= ops;
    out.rank = Rank{rank};
    out.spans.resize(ops);
    std::vector<bool> have(ops, false);
    for (std::size_t i = 0; i + 1 < untimed->size(); i += 2) {
      const json& op = (*untimed)[i];
      const json& at = (*untimed)[i + 1];
      if (!op.is_number_unsigned() || op.get<std::uint64_t>() >= ops || !at.is_number_integer()) {
        r.error(r.at("untimed"), "has an entry that is not an op and an instant");
        return;
      }
      const auto o = op.get<std::uint64_t>();
      out.spans[o] = {at.get<std::int64_t>(), at.get<std::int64_t>()};
      have[o] = true;
    }
    if (!place.emplace(rank, trace.ranks.size()).second) r.error(r.at("rank"), "stands twice");
    trace.ranks.push_back(std::move(out));
    seen.push_back(std::move(have));
  });
  f.close();
  if (diagnostics.size() != before) return std::nullopt;
  for (const Slice& s : slices) {
    const auto at = place.find(s.rank);
    if (at == place.end()) return fail("an event belongs to rank " + std::to_string(s.rank) + ", which is not listed");
    if (s.op >= seen[at->second].size()) {
      return fail("rank " + std::to_string(s.rank) + " has no op " + std::to_string(s.op));
    }
    if (seen[at->second][s.op]) {
      return fail("rank " + std::to_string(s.rank) + " has op " + std::to_string(s.op) + " twice");
    }
    seen[at->second][s.op] = true;
    trace.ranks[at->second].spans[s.op] = s.span;
  }
  for (std::size_t r = 0; r < seen.size(); ++r) {
    for (std::size_t o = 0; o < seen[r].size(); ++o) {
      if (!seen[r][o]) {
        return fail("rank " + std::to_string(index(trace.ranks[r].rank)) + " lacks op " + std::to_string(o));
      }
    }
  }
  return trace;
}

}  // namespace orrery
