#include "cli/common.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/file_kind.hpp"
#include "cli/hosted_command.hpp"
#include "cli/own_gpu_calibration.hpp"
#include "cli/plan_source.hpp"
#include "cli/table.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_words.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/device_calibration.hpp"
#include "core/spec/cluster_word.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"
#include "framework/own_executor.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"
#include "validate/cost_labels.hpp"

namespace orrery {

namespace {

std::string program_names() {
  std::string out;
  for (const TrainingProgram& p : training_programs()) out += fmt::format("{}{}", out.empty() ? "" : ", ", p.name);
  return out;
}

}  // namespace

void declare_output(Command& c, CommonFlags& flags, const std::string& output_help) {
  c.flag("--json", flags.json, "print JSON for other programs");
  c.option("-o,--output", flags.output, output_help);
  c.option("--data", flags.data, "folder of models, clusters and calibrations");
}

void declare_allocator(Command& c, CommonFlags& flags) {
  c.flag("--expandable-segments", flags.expandable_segments,
         "reserved memory as with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

void declare_machine(Command& c, CommonFlags& flags) {
  c.option("--gpus", flags.gpus, "number of devices; default: the cluster file's", {1, max_devices});
  declare_prices(c, flags);
}

void declare_prices(Command& c, CommonFlags& flags) {
  c.option("--nic", flags.nic, "a network port's bandwidth, where --cluster is one word (h200:8x4): \"400 Gbit/s\"");
  c.option("--calibration", flags.calibration, "calibration file; default: the device's");
  c.option(
      "--software", flags.software,
      "training program whose costs are priced in: none, " + program_names() + "; auto: the usual one on the device");
  c.option("--price", flags.price, "price of a GPU-hour, in place of the cluster's: \"2.50\", in USD, or \"2.20 EUR\"");
  c.choice("--lanes", flags.lanes, {"auto", "serial", "concurrent"},
           "whether a rank's lanes run one at a time or side by side; auto: as the device's file says");
}

void declare_plan_sources(Command& c, CommonFlags& flags) {
  c.option("--model", flags.model,
           "model of a launch file, or of a plan in one line (\"tp=8 dp=2\"): a name, a .toml file, or a config.json");
  c.option("--set", flags.set, "NAME=VALUE: what a launch file leaves open: sequence=4096, batch=64, TP=4 of a script");
  c.flag("--nearest", flags.nearest, "take the nearest plan where a launch file says what plans cannot");
}

void require_none(const Diagnostics& d) {
  if (!d.empty()) throw InputError(d);
}

void refuse(std::string code, std::string message, std::vector<std::string> details) {
  Diagnostics d;
  d.error(std::move(code), std::move(message), std::move(details));
  throw InputError(std::move(d));
}

nlohmann::ordered_json errors_json(const Diagnostics& d) {
  nlohmann::ordered_json errors = nlohmann::ordered_json::array();
  const nlohmann::ordered_json none(nullptr);
  for (const Diagnostic& m : d.list()) {
    const bool placed = m.position.line > 0;
    errors.push_back({{"file", m.file.empty() ? none : nlohmann::ordered_json(m.file)},
                      {"line", placed ? nlohmann::ordered_json(m.position.line) : none},
                      {"column", placed ? nlohmann::ordered_json(m.position.column) : none},
                      {"code", m.code},
                      {"message", m.message},
                      {"details", m.details}});
  }
  return errors;
}

Library library_of(const CommonFlags& flags) {
  if (flags.data) {
    std::error_code failure;
    if (!std::filesystem::is_directory(*flags.data, failure)) {
      refuse("cli.data", fmt::format("--data {} is not a folder", *flags.data));
    }
    return Library(*flags.data);
  }
  if (!data_folder().empty()) return Library(data_folder());
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    const std::filesystem::path installed = program.parent_path().parent_path() / "share" / "orrery" / "models";
    if (std::filesystem::is_directory(installed, failure)) return Library(installed);
  }
  return Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
}

std::filesystem::path own_calibration_path() {
  const char* base = std::getenv("XDG_DATA_HOME");
  if (base != nullptr && base[0] == '/')
    return std::filesystem::path(base) / "orrery" / "calibration" / "cpu-core.toml";
  const char* home = std::getenv("HOME");
  const std::filesystem::path root = home != nullptr && home[0] == '/' ? home : ".";
  return root / ".local" / "share" / "orrery" / "calibration" / "cpu-core.toml";
}

CalibrationChoice calibration_of(const CommonFlags& flags, const Library& library, const ClusterSpec& cluster,
                                 Precision precision) {
  if (flags.calibration) require_kind(*flags.calibration, {FileKind::calibration});
  if (!flags.usual_software.empty()) {
    PriceWishes wishes{flags.calibration, flags.usual_software, own_calibration_path()};
    if (flags.usual_software == own_gpu_executor) {  // what was measured of its kernels holds its costs
      wishes.software = "none";
      const std::filesystem::path own = own_gpu_calibration_path(calibration_name(cluster.device, library));
      std::error_code missing;
      if (!wishes.calibration && std::filesystem::exists(own, missing)) wishes.calibration = own;
    }
    Diagnostics unusual;  // no costs of it are known for these devices
    std::optional<CalibrationChoice> out = choose_calibration(wishes, library, cluster, precision, unusual);
    if (out) return std::move(*out);
  }
  Diagnostics d;
  std::optional<CalibrationChoice> out =
      choose_calibration({flags.calibration, flags.software, own_calibration_path()}, library, cluster, precision, d);
  require_none(d);
  return std::move(*out);
}

void adapt_to_this_machine(ClusterSpec& cluster) { adapt_to_cores(cluster, std::thread::hardware_concurrency()); }

void set_price(ClusterSpec& cluster, const CommonFlags& flags) {
  if (!flags.price) return;
  const std::string& text = *flags.price;
  double value = 0.0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, value);
  std::string_view currency(end, static_cast<std::size_t>(last - end));
  if (currency.starts_with(' ')) currency.remove_prefix(1);
  const bool letters = std::all_of(currency.begin(), currency.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (failure != std::errc{} || !(value >= 0.0 && value <= 1e9) || !letters ||
      (!currency.empty() && currency.size() != 3)) {
    refuse("cli.price", fmt::format("--price: \"{}\" is not a price", escaped(text)),
           {"A price is a number from 0 to 1e9, with its currency if that is not USD: 2.50, or \"2.20 EUR\"."});
  }
  cluster.price_per_gpu_hour = value;
  cluster.price_currency = currency.empty() ? "USD" : std::string(currency);
  cluster.price_source = "as --price says";
}

std::filesystem::path plan_path(const std::string& reference, const Library& library) {
  std::error_code failure;
  if (std::filesystem::exists(reference, failure) || (is_path(reference) && !is_plan_words(reference))) {
    require_kind(reference, {FileKind::plan, FileKind::launch});
    return reference;
  }
  if (is_plan_words(reference)) return reference;
  if (std::filesystem::exists(library.plan(reference), failure)) return library.plan(reference);
  const std::vector<std::string> known = library.plans();
  const std::vector<std::string> near = nearest(reference, known, 4);
  std::string detail = "It is not a file, and there are no example plans; --data names another folder.";
  if (!near.empty()) detail = fmt::format("Nearest names: {}.", fmt::join(near, ", "));
  if (near.empty() && !known.empty())
    detail = fmt::format("It is neither a file nor one of: {}.", fmt::join(known, ", "));
  refuse("library.unknown-plan", fmt::format("no plan is named \"{}\"", reference), {std::move(detail)});
}

std::optional<ModelSpec> named_model(const Library& library, const std::string& reference, Diagnostics& d) {
  const std::optional<std::filesystem::path> file = library.model_file(reference, "");
  if (file) require_kind(*file, {FileKind::model, FileKind::hf_config});
  return library.model(reference, "", d);
}

std::string with_nic(const std::string& cluster, const CommonFlags& flags) {
  if (!flags.nic) return cluster;
  if (!is_cluster_word(cluster)) {
    refuse("cli.flags", "--nic goes only with a cluster in one word",
           {fmt::format("--cluster is {}; h200:8x4 is one. A cluster file has its network's bandwidth.", cluster)});
  }
  return with_port(cluster, *flags.nic);
}

std::optional<ClusterSpec> named_cluster(const Library& library, const std::string& reference,
                                         std::optional<std::uint32_t> gpus, Diagnostics& d) {
  if (is_path(reference)) require_kind(reference, {FileKind::cluster});
  return library.cluster(reference, ".", gpus, d);
}

UnresolvedPlan read_unresolved(const std::string& reference, const CommonFlags& flags,
                               const std::optional<std::string>& cluster, ClusterUse use) {
  const Library library = library_of(flags);
  Diagnostics d;
  PlannedRun run = read_plan_source(reference, flags, cluster);
  if (!run.cluster && !cluster) {
    refuse("cli.cluster", "the plan names no cluster",
           {"Write cluster = \"...\" into the plan; most verbs also take --cluster."});
  }
  if (cluster && (!run.cluster || use == ClusterUse::replace)) {
    const auto ranks = static_cast<std::uint32_t>(run.plan.mesh.size());
    run.cluster_reference = with_nic(*cluster, flags);
    run.cluster = named_cluster(library, run.cluster_reference, ranks, d);
    require_none(d);
  }
  return checked_run(std::move(run), flags);
}

void check_run(PlannedRun& run, const CommonFlags& flags) {
  Diagnostics d;
  adapt_to_this_machine(*run.cluster);
  set_price(*run.cluster, flags);
  if (flags.lanes != "auto") run.cluster->device.concurrent_lanes = flags.lanes == "concurrent";
  static_cast<void>(check_sizes(run.model, run.workload, d));  // the mistakes are in d
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  check_framework(run, d);
  require_none(d);
}

UnresolvedPlan checked_run(PlannedRun run, const CommonFlags& flags) {
  check_run(run, flags);
  CalibrationChoice calibration =
      calibration_of(for_framework(flags, run.framework), library_of(flags), *run.cluster, run.workload.precision);
  return {std::move(run), std::move(calibration)};
}

LoadedPlan load_plan(const std::string& reference, const CommonFlags& flags, const std::optional<std::string>& cluster,
                     ClusterUse use) {
  return resolved_and_lowered(read_unresolved(reference, flags, cluster, use));
}

LoadedPlan resolved_and_lowered(UnresolvedPlan read) {
  LoadedPlan loaded;
  loaded.run = std::move(read.run);
  loaded.calibration = std::move(read.calibration);
  PlannedRun& run = loaded.run;
  close_for_framework(run);
  ResolvedPlan resolved = resolve(run.plan, run.model, run.workload, *run.cluster, loaded.calibration.calibration);
  run.plan = std::move(resolved.plan);
  if (run.model.mixture) run.workload = as_routed(run.workload, run.plan);
  loaded.resolved = std::move(resolved.resolved);
  loaded.program = resolved.program ? std::move(*resolved.program) : lower(run.model, run.workload, run.plan);
  return loaded;
}

CostModel cost_model(const LoadedPlan& loaded) {
  const Plan& plan = loaded.run.plan;
  return CostModel(*loaded.run.cluster, loaded.calibration.calibration, plan.mesh, plan.placement,
                   plan.collective_algorithm);
}

Report estimated(const LoadedPlan& loaded, bool expandable_segments) {
  Report report = estimate(loaded.run, loaded.program, cost_model(loaded));
  tell_prices(report, loaded.calibration);
  judge_memory(report, loaded.run, loaded.program, loaded.calibration.calibration, {{}, expandable_segments});
  return report;
}

namespace {

/// Differences key by key, as files state them: "workload.clip_norm: 1 | not set".
std::vector<std::string> unlike_workloads(const Workload& a, const Workload& b) {
  const auto keys = [](const Workload& w) {
    TomlWriter out;
    write_workload(out, w, "workload");
    std::vector<std::pair<std::string, std::string>> list;
    std::string table;
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('[')) table = line.substr(1, line.size() - 2);
      const std::size_t sign = line.find(" = ");
      if (sign != std::string::npos) list.emplace_back(table + "." + line.substr(0, sign), line.substr(sign + 3));
    }
    return list;
  };
  const auto left = keys(a), right = keys(b);
  const auto value = [](const auto& list, const std::string& key) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto& k) { return k.first == key; });
    return at == list.end() ? std::string("not set") : at->second;
  };
  std::vector<std::string> out;
  for (const auto* list : {&left, &right}) {
    for (const auto& [key, ignored] : *list) {
      if (list == &right && value(left, key) != "not set") continue;
      const std::string x = value(left, key), y = value(right, key);
      if (x != y) out.push_back(fmt::format("{}: {} | {}", key, x, y));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> unlike_subjects(const PlannedRun& a, const PlannedRun& b) {
  std::vector<std::string> out;
  const auto differ = [&](std::string_view what, const std::string& left, const std::string& right) {
    out.push_back(fmt::format("{}: {} | {}{}", what, escaped(left), escaped(right),
                              left == right ? " (with other details)" : ""));
  };
  const auto sourceless = [](auto spec) {
    spec.source.clear();
    if constexpr (requires { spec.price_source; }) spec.price_source.clear();
    if constexpr (requires { spec.assumed; }) spec.assumed.clear();
    spec.origin = {};
    return spec;
  };
  const auto priced = [](Workload w) {
    w.optimizer.learning_rate = 0.0;
    w.schedule = {};
    w.seed = 0;
    w.data.clear();
    w.origin = {};
    return w;
  };
  const auto devices = [](const ClusterSpec& c) {
    return is_mixed(c) ? fmt::format("{} of {}", c.name, devices_text(c))
                       : fmt::format("{} of {} {}", c.name, c.devices(), c.device.name);
  };
  if (sourceless(a.model) != sourceless(b.model)) differ("model", a.model.name, b.model.name);
  if (sourceless(*a.cluster) != sourceless(*b.cluster)) differ("cluster", devices(*a.cluster), devices(*b.cluster));
  if (priced(a.workload) != priced(b.workload)) {
    std::vector<std::string> lines = unlike_workloads(priced(a.workload), priced(b.workload));
    if (lines.empty()) lines.emplace_back("workload.routing: another table of loads");  // of which files have the path
    out.insert(out.end(), lines.begin(), lines.end());
  }
  return out;
}

std::string resolutions_text(const std::vector<Resolution>& resolved) {
  std::string out;
  for (const Resolution& r : resolved) out += fmt::format("  auto: {} = {}  ({})\n", r.key, r.value, r.reason);
  return out;
}

void refuse_standard_output(const char* flag, const std::optional<std::string>& file) {
  if (file == "-")
    refuse("cli.output", fmt::format("{} needs a file", flag), {"Only -o accepts - for standard output."});
}

void keep_apart(const std::filesystem::path& input, const std::vector<std::optional<std::string>>& outputs) {
  const auto same = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code failure;
    return a.lexically_normal() == b.lexically_normal() || std::filesystem::equivalent(a, b, failure);
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i] || *outputs[i] == "-") continue;
    if (same(input, *outputs[i])) {
      refuse("cli.output", fmt::format("the output would overwrite the input {}", *outputs[i]));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[j] && same(*outputs[j], *outputs[i])) {
        refuse("cli.output", fmt::format("two outputs would be written to {}", *outputs[i]));
      }
    }
  }
}

void require_folder(const std::filesystem::path& file) {
  std::error_code failure;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, failure)) {
    throw Error(fmt::format("cannot write {}: there is no folder {}", file.string(), folder.string()));
  }
  if (std::filesystem::is_directory(file, failure)) {
    throw Error(fmt::format("cannot write {}: it is a folder", file.string()));
  }
}

bool prints_output(const CommonFlags& flags) { return flags.output == "-"; }

void require_output(const CommonFlags& flags) {
  if (flags.output && !prints_output(flags)) require_folder(*flags.output);
}

void write_output(const CommonFlags& flags, std::string_view text) {
  if (prints_output(flags)) {
    print(text);
  } else if (flags.output) {
    write_file(*flags.output, text);
  }
}

struct FileWriter::State {
  std::filesystem::path file, first;
  std::ofstream out;
  bool closed = false;

  void require() {
    if (!out) throw Error(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
  }
};

FileWriter::FileWriter(const std::filesystem::path& wanted) : state_(std::make_unique<State>()) {
  require_folder(wanted);
  std::error_code failure;
  state_->file = wanted;
  // A link stays; the file that it leads to is written.
  if (std::filesystem::is_symlink(wanted, failure)) {
    state_->file = std::filesystem::canonical(wanted, failure);
    if (failure) throw Error(fmt::format("cannot write {}: {}", wanted.string(), failure.message()));
  }
  // Devices and pipes cannot be replaced by renaming.
  const auto status = std::filesystem::status(state_->file, failure);
  const bool whole = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  state_->first = whole ? std::filesystem::path(state_->file.string() + ".part") : state_->file;
  state_->out.open(state_->first, std::ios::binary);
  state_->require();
}

FileWriter::~FileWriter() {
  if (state_->closed || state_->first == state_->file) return;
  state_->out.close();
  std::error_code ignored;
  std::filesystem::remove(state_->first, ignored);
}

void FileWriter::write(std::string_view text) {
  state_->out.write(text.data(), static_cast<std::streamsize>(text.size()));
  state_->require();
}

void FileWriter::close() {
  state_->out.close();
  state_->require();
  if (state_->first != state_->file) {
    std::error_code failure;
    std::filesystem::rename(state_->first, state_->file, failure);
    if (failure) throw Error(fmt::format("cannot write {}: {}", state_->file.string(), failure.message()));
  }
  state_->closed = true;
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  FileWriter out(file);
  out.write(text);
  out.close();
}

void print(std::string_view raw) {
  const std::string text = escaped(raw, "\n\t");
  if (HostedCommand* hosted = HostedCommand::here()) {
    hosted->print(text);
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("cannot write to standard output");
  }
}

void say(std::string_view raw) {
  const std::string text = escaped(raw, "\n\t");
  if (HostedCommand* hosted = HostedCommand::here()) {
    hosted->say(text);
  } else {
    std::fputs(text.c_str(), stderr);
  }
}

std::string json_text(const nlohmann::ordered_json& json) {
  // JSON itself lets controls from U+007F on stand as they are.
  return escaped(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace), "\n") + "\n";
}

void print_json(const nlohmann::ordered_json& json) { print(json_text(json)); }

void answer(const CommonFlags& flags, const nlohmann::ordered_json& json, const std::string& text) {
  write_output(flags, json_text(json));
  if (prints_output(flags)) return;
  flags.json ? print_json(json) : print(text);
}

void write_or_print(const CommonFlags& flags, const std::string& text) {
  if (flags.output) {
    write_output(flags, text);
  } else if (flags.json) {
    print_json({{"text", text}});
  } else {
    print(text);
  }
}

void require_svg(const std::optional<std::string>& file) {
  refuse_standard_output("--svg", file);
  if (!file) return;
  if (std::filesystem::path(*file).extension() != ".svg") {
    refuse("cli.flags", fmt::format("--svg draws an .svg file, and {} is not one", escaped(*file)));
  }
  require_folder(*file);
}

}  // namespace orrery
