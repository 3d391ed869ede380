#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/arguments.hpp"
#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/library.hpp"
#include "planner/resolve.hpp"
#include "sim/cost/cost_model.hpp"
#include "validate/calibration_choice.hpp"

namespace orrery {

/// Flags that several verbs share.
struct CommonFlags {
  bool json = false;
  std::optional<std::string> output;
  std::optional<std::uint32_t> gpus;
  std::optional<std::string> calibration;
  std::string software = "auto";  ///< a training program, "none" or "auto": the device's usual one
  std::string usual_software;     ///< of the plan's framework, where `software` is "auto" and the device has its costs
  std::optional<std::string> price;  ///< per GPU-hour, in place of the cluster's: "2.50", "2.20 EUR"
  std::optional<std::string> nic;    ///< a network port of a cluster in one word
  std::string lanes = "auto";        ///< "serial", "concurrent" or "auto": as the device's file says
  std::optional<std::string> data;
  bool expandable_segments = false;
  std::optional<std::string> model;  ///< of a launch file or a plan in one line that names none
  std::vector<std::string> set;      ///< NAME=VALUE: what a launch file leaves open
  bool nearest = false;              ///< take the nearest plan where a launch file says what plans cannot
};

/// --json, -o and --data; `output_help` says what -o writes. "-o -" writes it to standard output, where then nothing
/// else is printed.
void declare_output(Command&, CommonFlags&, const std::string& output_help);
/// Declares --expandable-segments: how the process's caching allocator is set up.
void declare_allocator(Command&, CommonFlags&);
/// --gpus, and what declare_prices() declares.
void declare_machine(Command&, CommonFlags&);
/// --nic, --calibration, --software, --price and --lanes.
void declare_prices(Command&, CommonFlags&);

/// --model, --set and --nearest, for verbs that take a plan.
void declare_plan_sources(Command&, CommonFlags&);

/// Mistakes of the user, on their way to exit status 2.
class InputError {
 public:
  explicit InputError(Diagnostics d, bool in_json = false) : diagnostics(std::move(d)), answered(in_json) {}
  Diagnostics diagnostics;
  bool answered;  ///< JSON that holds them was printed
};
/// One entry under "errors" in JSON: file, line, column (null where they do not apply), code, message, details.
[[nodiscard]] nlohmann::ordered_json errors_json(const Diagnostics&);
/// Throws InputError when there is a mistake.
void require_none(const Diagnostics&);
/// Throws a mistake in the arguments themselves.
[[noreturn]] void refuse(std::string code, std::string message, std::vector<std::string> details = {});
/// "-" stands for standard output with -o only.
void refuse_standard_output(const char* flag, const std::optional<std::string>& file);
/// Refuses outputs that are the input or each other, so that nothing that a person wrote is lost. "-" is no file.
void keep_apart(const std::filesystem::path& input, const std::vector<std::optional<std::string>>& outputs);

/// The data directory: --data, or the one beside the installed program, or the one in the source tree.
[[nodiscard]] Library library_of(const CommonFlags&);

/// The choice of --calibration; without it, for cores of this machine (cpu-core), the file that `orrery calibrate`
/// wrote; otherwise the shipped one of the device. Constants of another device are an input error. The costs of
/// --software are included, for products in the given precision.
[[nodiscard]] CalibrationChoice calibration_of(const CommonFlags&, const Library&, const ClusterSpec&, Precision);
/// The file that `orrery calibrate` writes without -o.
[[nodiscard]] std::filesystem::path own_calibration_path();

/// A built-in cluster whose devices are this machine's cores gets their true number.
void adapt_to_this_machine(ClusterSpec&);
/// Sets the price of --price, where it is given.
void set_price(ClusterSpec&, const CommonFlags&);

/// A plan file with its cluster, before its autos have values.
struct UnresolvedPlan {
  PlannedRun run;  ///< its cluster is set
  CalibrationChoice calibration;
};
/// What a given cluster does to the cluster that a plan names.
enum class ClusterUse : std::uint8_t {
  replace,   ///< takes its place: the same plan on another cluster
  fall_back  ///< stands in only where the plan names none
};
/// Reads `reference`: a path, or the name of an example plan.  A plan that
/// names no cluster and gets none here is an input error.
[[nodiscard]] UnresolvedPlan read_unresolved(const std::string& reference, const CommonFlags&,
                                             const std::optional<std::string>& cluster,
                                             ClusterUse use = ClusterUse::replace);

/// Sets price, lanes and cores of a run's cluster, and checks its rules.
void check_run(PlannedRun&, const CommonFlags&);
/// A run that has been read: its cluster's price, lanes and cores are set, its rules are checked, its prices chosen.
[[nodiscard]] UnresolvedPlan checked_run(PlannedRun, const CommonFlags&);

/// A plan file with everything that is needed to price or run it.
struct LoadedPlan {
  PlannedRun run;  ///< resolved; its cluster is set
  CalibrationChoice calibration;
  std::vector<Resolution> resolved;  ///< what was auto
  Program program;
};
/// Resolves and lowers a plan, for its framework where it names one.
[[nodiscard]] LoadedPlan resolved_and_lowered(UnresolvedPlan);
/// Reads (as read_unresolved), resolves and lowers a plan.
[[nodiscard]] LoadedPlan load_plan(const std::string& reference, const CommonFlags&,
                                   const std::optional<std::string>& cluster, ClusterUse use = ClusterUse::replace);
/// Path of a plan: the reference itself, or the example plan of that name.  A file of another kind is refused.
[[nodiscard]] std::filesystem::path plan_path(const std::string& reference, const Library&);

[[nodiscard]] CostModel cost_model(const LoadedPlan&);
/// What estimate() says of a plan, with the memory of its processes judged and its prices named.
[[nodiscard]] Report estimated(const LoadedPlan&, bool expandable_segments);

/// The differences between what two plans are for: "model: A | B". Sources of figures, and settings that no prediction
/// depends on (learning rates, seed, data), do not count. Times of plans for different things say little about the
/// plans.
[[nodiscard]] std::vector<std::string> unlike_subjects(const PlannedRun&, const PlannedRun&);

/// Lines "auto: key = value (reason)" for every value that was resolved.
[[nodiscard]] std::string resolutions_text(const std::vector<Resolution>&);

/// The reference of a cluster with what --nic says. It is refused for a cluster that is not in one word.
[[nodiscard]] std::string with_nic(const std::string& cluster, const CommonFlags&);
/// A model or cluster that `--model`, `--cluster` or `show` names; a file of another kind is refused.
[[nodiscard]] std::optional<ModelSpec> named_model(const Library&, const std::string& reference, Diagnostics&);
[[nodiscard]] std::optional<ClusterSpec> named_cluster(const Library&, const std::string& reference,
                                                       std::optional<std::uint32_t> gpus, Diagnostics&);

/// Throws Error where `file` cannot be written because its folder is missing. The folder is not created. This is for
/// verbs that work long before they write.
void require_folder(const std::filesystem::path& file);
/// Whether -o is "-".
[[nodiscard]] bool prints_output(const CommonFlags&);
/// require_folder for -o, where it names a file.
void require_output(const CommonFlags&);
/// Writes the output of -o to its file or to standard output; does nothing without -o.
void write_output(const CommonFlags&, std::string_view text);

/// A file that is written piece by piece: to a neighbour first, which gets its name in close() and is removed without
/// that. Throws Error.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path&);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(std::string_view text);
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a file whole: to a neighbour first, then renamed, so that an
/// interrupted program leaves no half file.  Throws Error.
void write_file(const std::filesystem::path&, std::string_view text);
/// Prints to standard output; throws Error when that fails. Text that could steer a terminal is escaped() here and in
/// `say`, wherever it comes from, except newlines and tabs. (JSON and TOML read the same character back.)
void print(std::string_view text);
/// Prints to standard error.
void say(std::string_view text);
/// Prints JSON with two spaces of indentation. Bytes that are not UTF-8 (names in files) become U+FFFD.
void print_json(const nlohmann::ordered_json&);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json&);
/// Answers a command: writes the JSON where -o says; prints it with --json, and the text without. What `-o -` has
/// printed is not printed again.
void answer(const CommonFlags&, const nlohmann::ordered_json&, const std::string& text);
/// Writes a text where -o says, or prints it, with --json as {"text": ...}.
void write_or_print(const CommonFlags&, const std::string& text);
/// Refuses a file of --svg that is standard output, is no .svg, or has no folder.
void require_svg(const std::optional<std::string>& file);

}  // namespace orrery
