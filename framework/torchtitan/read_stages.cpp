#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/base/toml_writer.hpp"
#include "core/plan/schedule_rules.hpp"
#include "framework/torchtitan/reading.hpp"
#include "framework/torchtitan/schedule_csv.hpp"
#include "framework/torchtitan/stages.hpp"

// Pipeline and recomputation of a torchtitan configuration. Source: pytorch/torchtitan@73a0e6979,
// torchtitan/distributed/pipeline_parallel.py and activation_checkpoint.py; names of schedules are those of PyTorch's
// torch/distributed/pipelining/schedules.py (get_schedule_class), in any case.

namespace orrery {
namespace {

constexpr std::string_view schedule_key = "parallelism.pipeline_parallel_schedule";
constexpr std::string_view csv_key = "parallelism.pipeline_parallel_schedule_csv";
constexpr std::string_view per_stage_key = "parallelism.pipeline_parallel_layers_per_stage";
constexpr std::string_view first_key = "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr std::string_view last_key = "parallelism.pipeline_parallel_last_stage_less_layers";
constexpr std::string_view modules_key = "parallelism.module_fqns_per_model_part";
constexpr std::string_view splits_key = "parallelism.pipeline_parallel_split_points";

struct TitanSchedule {
  std::string_view name, plan;
  bool several;  ///< stages on each rank
  StagePlacement placement = StagePlacement::loop;
};
constexpr std::array<TitanSchedule, 10> schedules{{{"1F1B", "1f1b", false},
                                                   {"GPipe", "gpipe", false},
                                                   {"PipelineScheduleSingle", "", false},
                                                   {"Interleaved1F1B", "interleaved", true},
                                                   {"LoopedBFS", "breadth-first", true},
                                                   {"InterleavedZeroBubble", "", true},
                                                   {"PipelineScheduleMulti", "", true},
                                                   {"_PipelineScheduleRuntime", "", true},
                                                   {"ZBVZeroBubble", "zb-v", true, StagePlacement::v},
                                                   {"DualPipeV", "dualpipe-v", true, StagePlacement::v}}};

/// The number behind "layers."; empty for other modules.
std::optional<std::uint32_t> layer_number(const std::string& module) {
  if (!module.starts_with("layers.") || module.size() > 12) return std::nullopt;
  std::uint32_t out = 0;
  for (const char c : module.substr(7)) {
    if (c < '0' || c > '9') return std::nullopt;
    out = out * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return out;
}

}  // namespace

/// Layers of each stage as the file lists them: modules of every stage, or in v0.1.0 the first layer of every stage
/// but the first.
std::optional<std::vector<std::uint32_t>> TitanReading::listed_stages() {
  std::vector<std::uint32_t> out;
  if (const LaunchValue* parts = r_.value(modules_key); parts != nullptr && !parts->items.empty()) {
    std::uint32_t next = 0;
    for (const LaunchValue& part : parts->items) {
      std::uint32_t layers = 0;
      for (const LaunchValue& module : part.items) {
        const auto number = layer_number(module.text);
        if (number && *number != next) {
          r_.error(modules_key, fmt::format("layer {} stands where layer {} follows", *number, next),
                   {"Stages hold layers in the order of the model."});
          return std::nullopt;
        }
        if (number) ++next, ++layers;
      }
      out.push_back(layers);
    }
    return out;
  }
  const std::vector<std::string> splits = texts(splits_key);
  if (splits.empty()) return std::nullopt;
  std::uint32_t before = 0;
  for (const std::string& split : splits) {
    const auto number = layer_number(split);
    if (!number || *number <= before) {
      r_.error(splits_key, fmt::format("{} is no later layer", split.substr(0, 40)), {});
      return std::nullopt;
    }
    out.push_back(*number - before);
    before = *number;
  }
  const std::uint64_t layers = r_.known_model()->layers;
  out.push_back(layers > before ? static_cast<std::uint32_t>(layers - before) : 0);
  return out;
}

void TitanReading::stages() {
  r_.assume("plan.attention", "\"flash\"", "scaled dot-product or flex attention");
  if (pipeline_ == 1) {
    stage_layers_ = std::vector<std::uint32_t>{static_cast<std::uint32_t>(r_.known_model()->layers)};
    without_effect({schedule_key, csv_key, per_stage_key, first_key, last_key, modules_key, splits_key},
                   "the pipeline has one stage");
    return;
  }
  const std::string name = r_.text(schedule_key).value_or("1F1B");
  const auto lower = [](std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return out;
  };
  const auto known = std::find_if(schedules.begin(), schedules.end(),
                                  [&](const TitanSchedule& s) { return lower(s.name) == lower(name); });
  if (known == schedules.end()) {
    std::string all;
    for (const TitanSchedule& s : schedules) all += fmt::format("{}{}", all.empty() ? "" : ", ", s.name);
    r_.error(schedule_key, fmt::format("no schedule is {}", name.substr(0, 40)), {fmt::format("Known: {}.", all)});
    return;
  }
  placement_ = known->placement;
  const bool csv = !r_.text(csv_key).value_or("").empty();
  if (csv) {
    r_.take(schedule_key, "how stages lie on ranks; the schedule is the file's");
  } else if (!known->plan.empty()) {
    set_or_assume(schedule_key, "plan.schedule", toml_quoted(known->plan));
  } else if (known->name == "InterleavedZeroBubble") {
    r_.set(schedule_key, "plan.schedule", "\"interleaved\"");
    r_.refuse(schedule_key, "zero bubble on a loop of chunks is not in plans", "interleaved");
  } else {
    r_.error(schedule_key, fmt::format("{} needs a schedule file", known->name),
             {"Name it with pipeline_parallel_schedule_csv."});
  }
  if (csv) {
    schedule_csv(known->placement == StagePlacement::v);
  } else {
    without_effect({csv_key}, "no schedule file is named");
  }

  const std::uint64_t layers = r_.known_model()->layers;
  const std::uint64_t first = r_.whole(first_key).value_or(1), last = r_.whole(last_key).value_or(1);
  std::uint64_t stages = pipeline_ * (known->several ? 2 : 1);
  std::string_view from = per_stage_key;
  if (const auto share = r_.whole(per_stage_key, 1)) stages = (layers + first + last + *share - 1) / *share;
  stage_layers_ = listed_stages();
  const bool listed = stage_layers_.has_value();
  if (listed) {
    from = has(modules_key) ? modules_key : splits_key;
    stages = stage_layers_->size();
  } else {
    stage_layers_ = titan_stage_layers(layers, stages, first, last);
  }
  const std::uint64_t chunks = stages / pipeline_;
  if (stages % pipeline_ != 0 || (known->several ? chunks < 2 : chunks != 1)) {
    r_.error(has(from) ? from : schedule_key, "the stages do not go onto the pipeline's ranks",
             {fmt::format("There are {} on {} ranks; {} takes {} on each.", stages, pipeline_, known->name,
                          known->several ? "two or more" : "one")});
    stage_layers_.reset();
    return;
  }
  if (chunks > 1) r_.assume("plan.chunks", std::to_string(chunks), "stages on each rank");
  if (!stage_layers_) {
    if (has(first_key) || has(last_key)) {
      r_.error(has(first_key) ? first_key : last_key, "embedding or head count for more layers than a stage has", {});
    }
  } else if (listed) {
    r_.set(from, "plan.stage_layers", toml_list(*stage_layers_));
  } else {
    r_.assume("plan.stage_layers", toml_list(*stage_layers_), "as torchtitan shares layers out");
  }
  for (const std::string_view name_of_share : {per_stage_key, first_key, last_key}) {
    if (has(name_of_share)) r_.take(name_of_share, listed ? "the stages are listed" : "layers of the stages");
  }
  without_effect({modules_key, splits_key}, "no stages are listed");
}

void TitanReading::schedule_csv(bool on_v) {
  const std::string named = *r_.text(csv_key);
  const std::filesystem::path beside = std::filesystem::path(r_.file().origin.file).parent_path() / named;
  const std::optional<ComputeOrder> order = read_schedule_csv_file(beside, r_.diagnostics());
  if (!order) {
    r_.take(csv_key, "");
    return;
  }
  if (pipeline_ > 1 && order->chunks > 1 && (order->placement == StagePlacement::v) != on_v) {
    r_.error(csv_key, "the schedule file has its stages on other ranks than the schedule says",
             {"ZBVZeroBubble and DualPipeV lie on a V, others on a loop."});
    return;
  }
  std::string lines;
  for (const std::string& line : order_lines(*order)) {
    lines += fmt::format("{}{}", lines.empty() ? "" : ", ", toml_quoted(line));
  }
  r_.set(csv_key, "plan.order", "[" + lines + "]");
  r_.assume("plan.schedule", "\"custom\"", "the actions are the file's");
}

void TitanReading::recomputation() {
  constexpr std::string_view mode_key = "activation_checkpoint.mode";
  constexpr std::string_view option_key = "activation_checkpoint.selective_ac_option";
  constexpr std::string_view budget_key = "activation_checkpoint.memory_budget";
  const auto mode = r_.word(mode_key, {"selective", "full", "memory_budget", "none"}).value_or("selective");
  const std::string option = r_.text(option_key).value_or("2");
  const auto layers = [&](std::string_view from, const std::vector<std::uint32_t>& counts) {
    if (std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; })) {
      set_or_assume(mode_key, "plan.recompute", "\"none\"");
      return;
    }
    set_or_assume(mode_key, "plan.recompute", "\"full\"");
    if (stage_layers_ && counts != *stage_layers_) set_or_assume(from, "plan.recompute_layers", toml_list(counts));
  };
  if (mode == "none" || mode == "full") {
    set_or_assume(mode_key, "plan.recompute", mode == "none" ? "\"none\"" : "\"full\"");
  } else if (mode == "memory_budget") {
    const double budget = r_.real(budget_key).value_or(0.5);
    std::vector<std::uint32_t> counts;
    for (const std::uint32_t n : stage_layers_.value_or(std::vector<std::uint32_t>{})) {
      counts.push_back(static_cast<std::uint32_t>(std::lround(n * std::clamp(1.0 - budget, 0.0, 1.0))));
    }
    layers(budget_key, counts);
    r_.refuse(mode_key, "what a compiler recomputes for a budget of memory is not in plans",
              fmt::format("{} of 100 layers recomputed", std::lround(100 * std::clamp(1.0 - budget, 0.0, 1.0))));
  } else if (option == "op") {
    // Results of every second product are kept: as much is made again as with every second layer whole
    // (docs/formulas/memory.md).
    std::vector<std::uint32_t> counts;
    for (const std::uint32_t n : stage_layers_.value_or(std::vector<std::uint32_t>{})) counts.push_back(n / 2);
    layers(option_key, counts);
    r_.take(option_key, "every second product is made again, as much work as every second layer whole");
  } else if (!option.empty() && option.size() < 6 && option.find_first_not_of("0123456789") == std::string::npos) {
    const auto every = static_cast<std::uint32_t>(std::stoul(option));
    if (every <= 1) {
      set_or_assume(mode_key, "plan.recompute", "\"full\"");
    } else if (stage_layers_) {
      layers(option_key, every_nth_layer(*stage_layers_, static_cast<std::uint32_t>(pipeline_), placement_, every));
    }
    if (has(option_key)) r_.take(option_key, fmt::format("one layer in {} recomputed", std::max(every, 1U)));
  } else {
    r_.error(option_key, "selective_ac_option is \"op\" or a whole number",
             {fmt::format("It is {}.", option.substr(0, 40))});
  }
  without_effect({option_key, budget_key}, "another mode is chosen");
  without_effect({"activation_checkpoint.*"}, "how recomputation is checked and traced is no part of a plan");
}

}  // namespace orrery
