#pragma once

#include <optional>
#include <string>

#include "cli/common.hpp"
#include "core/plan/plan.hpp"
#include "framework/framework.hpp"

namespace orrery {

/// What --model, --cluster, --gpus and --set say beside a launch file.
[[nodiscard]] LaunchInputs launch_inputs(const CommonFlags&, const std::optional<std::string>& cluster);

/// Reads a launch file as a plan. `format` is a name of a LaunchFormat, or "auto".
[[nodiscard]] LaunchedRun read_launch_file(const std::string& file, const std::string& format, const CommonFlags&,
                                           const std::optional<std::string>& cluster);

/// Shows why a file whose name ends as those of launch files do (.yaml, .json, .py, .sh, .toml) cannot be parsed;
/// returns where it can, or has another name.
void refuse_broken_launch(const std::string& text, const std::string& file);
/// What became of the keys of a launch file: lists by kind, each key with its line.
[[nodiscard]] std::string notes_text(const LaunchedRun&, bool with_effectless);
[[nodiscard]] nlohmann::ordered_json notes_json(const LaunchedRun&);

/// Reads what stands for a plan on the command line: a plan file, the name of an example, a launch file of another
/// program (for whose inexpressible parts --nearest is needed), or a plan in one line, with --model and a cluster.
[[nodiscard]] PlannedRun read_plan_source(const std::string& reference, const CommonFlags&,
                                          const std::optional<std::string>& cluster);
/// A plan as a plan in one line changes it.
[[nodiscard]] PlannedRun changed_run(const PlannedRun& base, const std::string& words);

/// The flags with the software of the plan's framework as the usual one, unless --software names one.
[[nodiscard]] CommonFlags for_framework(CommonFlags, const std::string& framework);

}  // namespace orrery
