#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/limits.hpp"
#include "core/plan/plan.hpp"
#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_value.hpp"

// A framework is a program that launches training runs. What Orrery knows of it stands in its room, framework/NAME/:
// what it can launch, and how its launch files are read and written. This table is the list of rooms.

namespace orrery {

/// A kind of launch file that a framework reads.
struct LaunchFormat {
  std::string_view name;   ///< "torchtitan-toml", as --as takes it
  std::string_view title;  ///< "a torchtitan configuration"
  LaunchSyntax syntax = LaunchSyntax::yaml;
  /// Whether a parsed file is of this kind, by keys that only such files have.
  bool (*recognises)(const LaunchFile&) = nullptr;
  /// Says of every key what becomes of it.
  void (*read)(LaunchReading&) = nullptr;
};

/// Values that go together only under a condition, in the words of --only: where `when` holds, so must `then`.
struct AbilityRule {
  std::string_view when;      ///< "zero=2,3"; empty: always
  std::string_view then;      ///< "pipeline=1"
  std::string_view reason;    ///< "DeepSpeed's pipeline engine stops at ZeRO-1"
  std::string_view key = {};  ///< what `also` is about: "mesh.order"
  /// What no list of values says, as the order of axes; null: nothing. What a plan leaves open passes.
  bool (*also)(const PlannedRun&) = nullptr;
};

/// How a plan is written as a launch of the framework.
struct LaunchWriting {
  std::string_view name;  ///< "megatron", as --to takes it
  std::string_view title;
  /// The launch file or command, complete; empty where the framework cannot say the plan, with a diagnostic for each
  /// reason (export.*). Requires a resolved plan that passes check().
  std::optional<std::string> (*write)(const PlannedRun&, Diagnostics&) = nullptr;
  /// How a node of a Slurm job starts it: a command of a shell without single quotes. There LAUNCH is the file, TRAIN
  /// the user's own script with its arguments, TORCHRUN torchrun with what it needs; NODES, GPUS (of a node),
  /// NODE_RANK, MASTER_ADDR and MASTER_PORT are set.
  std::string_view start = {};
};

/// One row: a framework.
struct Framework {
  std::string_view name;      ///< "megatron-core"
  std::string_view title;     ///< "Megatron-LM"
  std::string_view software;  ///< whose costs price it (models/software); empty: the usual one on the device
  /// What it can launch, in the words of `plan --only`; what is not named is free.
  std::string_view abilities;
  std::vector<AbilityRule> rules = {};
  /// Further rules, of one model and workload; null: none.
  std::vector<AbilityRule> (*rules_for)(const ModelSpec&, const Workload&) = nullptr;
  /// Gives what a plan leaves open the one value that the framework has for it, where `also` of a rule says so; null:
  /// nothing is so.
  void (*close)(PlannedRun&) = nullptr;
  /// What it cannot train whatever the plan is: one diagnostic for each reason, at a key of the workload or at "model",
  /// with the codes of `write` (export.*); null: nothing is known.
  void (*check_model)(const ModelSpec&, const Workload&, Diagnostics&) = nullptr;
  std::string_view abilities_source = {};       ///< where they were read
  std::vector<std::string_view> programs = {};  ///< training programs (validate's names) that it launches
  std::vector<LaunchFormat> formats = {};
  std::vector<LaunchWriting> writings = {};
};

/// All frameworks, in the order of their names.
[[nodiscard]] const std::vector<Framework>& frameworks();
[[nodiscard]] const Framework* framework_named(std::string_view name);

/// What it can launch of any model, as limits of a search.
[[nodiscard]] SearchLimits abilities_of(const Framework&);
/// What it can launch of a model that it trains (check_model). Its writings refuse no plan within these limits.
[[nodiscard]] SearchLimits abilities_of(const Framework&, const ModelSpec&, const Workload&);
/// What a run's framework (PlannedRun::framework) cannot train or launch of it: one diagnostic for each reason, at the
/// key. Adds nothing where the run names none; what a plan leaves open passes.
/// Codes: framework.name  framework.cannot, and those of check_model
void check_framework(const PlannedRun&, Diagnostics&);
/// Gives what a plan leaves open a value that its framework launches, where the framework does not launch all.
void close_for_framework(PlannedRun&);

/// Reads a launch file; `format` names its kind, or "auto". Empty after a mistake.
/// Codes: launch.kind  launch.syntax  launch.value  launch.unknown-key  launch.model  launch.set, and those of check().
[[nodiscard]] std::optional<LaunchedRun> read_launch(std::string text, const std::string& file, std::string_view format,
                                                     const LaunchInputs&, const Library&, Diagnostics&);

/// Names of all kinds of launch files, as `format` above takes them.
[[nodiscard]] std::vector<std::string> launch_format_names();
[[nodiscard]] bool is_launch_format(std::string_view name);
/// All ways to write a plan as a launch.
[[nodiscard]] std::vector<LaunchWriting> launch_writings();
/// The framework with the writing of that name; null where there is none.
[[nodiscard]] const Framework* framework_writing(std::string_view name);

/// The title of the kind of launch file that a text is; empty where it is none that is known.
[[nodiscard]] std::string_view launch_title(const std::string& text, const std::string& file);

}  // namespace orrery
