#include "cli/file_kind.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "core/base/toml_reader.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/json_fields.hpp"
#include "core/record/profile.hpp"
#include "core/record/report_file.hpp"
#include "framework/framework.hpp"
#include "sim/net/import/import.hpp"
#include "sweep/points_file.hpp"

namespace orrery {

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::model: return "model";
    case FileKind::workload: return "workload";
    case FileKind::device: return "device";
    case FileKind::cluster: return "cluster";
    case FileKind::reliability: return "reliability file";
    case FileKind::power: return "table of power";
    case FileKind::plan: return "plan";
    case FileKind::calibration: return "calibration";
    case FileKind::hf_config: return "Hugging Face config";
    case FileKind::report: return "report";
    case FileKind::trace: return "trace";
    case FileKind::profile: return "profile of PyTorch";
    case FileKind::program: return "program";
    case FileKind::order: return "schedule";
    case FileKind::fabric: return "fabric";
    case FileKind::lesson: return "lesson";
    case FileKind::measured_runs: return "table of measured runs";
    case FileKind::sweep: return "sweep";
    case FileKind::points: return "file of points";
    case FileKind::network: return "description of a network";
    case FileKind::launch: return "launch file";
    case FileKind::unknown: return "unknown";
  }
  return "unknown";
}

namespace {

/// Whether another training program's launch is there. Traces and profiles are longer than any of them.
bool is_launch_file(const std::string& text, const std::string& file) {
  constexpr std::size_t longest = std::size_t{1} << 20;
  return text.size() <= longest && !launch_title(text, file).empty();
}

/// Whether `import` knows a text that is no TOML as a network. Heads of tables are of a file of ours that is broken.
bool is_network(const std::string& text) {
  return import_kind_of(text).has_value() && !text.starts_with('[') && text.find("\n[") == std::string::npos;
}

}  // namespace

FileKind kind_of(const std::string& text, const std::string& file, Diagnostics& diagnostics) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return FileKind::unknown;
  if (text.compare(first, 14, "orrery-program") == 0) return FileKind::program;
  if (text.compare(first, 3, "id,") == 0) return FileKind::measured_runs;
  if (looks_like_points(text)) return FileKind::points;
  // Comments may stand before its first line.
  for (std::size_t at = first; at < text.size(); at = text.find_first_not_of(" \t\r\n", text.find('\n', at))) {
    if (text.compare(at, 12, "orrery-order") == 0) return FileKind::order;
    if (text[at] != '#') break;
  }
  if (is_launch_file(text, file)) return FileKind::launch;
  if (text[first] == '{') {
    if (looks_like_trace(text)) return FileKind::trace;
    if (looks_like_profile(text)) return FileKind::profile;
    if (looks_like_report(text)) return FileKind::report;
    nlohmann::json object;
    JsonReading reading;
    reading.non_finite = true;  // configs may have them
    if (!parse_json(text, file, "file.syntax", diagnostics, object, reading)) return FileKind::unknown;
    for (const char* mark : {"model_type", "architectures", "hidden_size", "n_embd"}) {
      if (object.contains(mark)) return FileKind::hf_config;
    }
    return FileKind::unknown;
  }
  // The text is an array, and not the head of a table.
  if (text[first] == '[' && nlohmann::json::accept(text)) return FileKind::unknown;
  Diagnostics broken;
  const std::optional<TomlTable> root = parse_toml(text, file, broken);
  if (!root && is_network(text)) return FileKind::network;
  for (const Diagnostic& m : broken.list()) diagnostics.add(m);
  if (!root) return FileKind::unknown;
  if (root->has("step")) return FileKind::lesson;
  if (root->has("sweep")) return FileKind::sweep;
  // A plan names what other files say in tables.
  if (root->is_text("model") || root->is_text("cluster")) return FileKind::plan;
  if (root->has("plan") || root->has("mesh") || (root->has("workload") && root->has("model"))) return FileKind::plan;
  if (root->has("model")) return FileKind::model;
  if (root->has("workload")) return FileKind::workload;
  if (root->has("cluster")) return FileKind::cluster;
  if (root->has("reliability")) return FileKind::reliability;
  if (root->is_text("device")) return FileKind::calibration;
  if (root->has("device")) return FileKind::device;
  if (root->has("fabric")) return FileKind::fabric;
  if (root->has("devices") || root->has("links")) return FileKind::power;
  return FileKind::unknown;
}

std::string with_article(FileKind kind) {
  return kind == FileKind::unknown ? "an unknown file" : "a " + std::string(name_of(kind));
}

void require_kind(const std::filesystem::path& file, const std::vector<FileKind>& wanted) {
  Diagnostics found;
  const std::optional<std::string> text = read_text(file, found);
  if (!text) return;
  const std::size_t first = text->find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (*text)[first] == '{';
  const FileKind kind = kind_of(*text, file.string(), found);
  if (json && !found.empty()) throw InputError(std::move(found));  // it is broken, whatever it was to be
  if (kind == FileKind::unknown && !json) return;
  if (std::find(wanted.begin(), wanted.end(), kind) != wanted.end()) return;
  std::string names;
  for (const FileKind w : wanted) {
    // Who is asked for a plan knows whether there is a launch file.
    if (w != FileKind::launch) names += (names.empty() ? "" : " or ") + with_article(w);
  }
  Diagnostic m;
  m.file = file.string();
  m.code = "cli.kind";
  m.message = "this is " + (kind == FileKind::unknown ? "JSON of an unknown kind" : with_article(kind)) + ", but " +
              names + " is needed";
  Diagnostics d;
  d.add(std::move(m));
  throw InputError(std::move(d));
}

}  // namespace orrery
