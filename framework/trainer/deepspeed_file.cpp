#include "framework/trainer/deepspeed_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

namespace orrery {
namespace {

constexpr std::size_t largest_file = 1 << 20;

/// Keys that do not change a step's time or memory in a plan, or that the Trainer fills in. An ending "*" stands for
/// any rest. Source: microsoft/DeepSpeed@edaa7221 docs/_pages/config-json.md.
constexpr std::array harmless{"train_batch_size",
                              "train_micro_batch_size_per_gpu",
                              "gradient_accumulation_steps",
                              "fp16.*",
                              "bf16.*",
                              "optimizer.*",
                              "scheduler.*",
                              "zero_allow_untested_optimizer",
                              "zero_force_ds_cpu_optimizer",
                              "steps_per_print",
                              "wall_clock_breakdown",
                              "dump_state",
                              "compile.*",
                              "comms_config.*",
                              "comms_logger.*",
                              "monitor_config.*",
                              "tensorboard.*",
                              "wandb.*",
                              "csv_monitor.*",
                              "flops_profiler.*",
                              "autotuning.*",
                              "checkpoint.*",
                              "data_types.*",
                              "aio.*",
                              "communication_data_type",
                              "prescale_gradients",
                              "gradient_predivide_factor",
                              "_comment",
                              "zero_optimization.allgather_partitions",
                              "zero_optimization.allgather_bucket_size",
                              "zero_optimization.reduce_scatter",
                              "zero_optimization.contiguous_gradients",
                              "zero_optimization.round_robin_gradients",
                              "zero_optimization.sub_group_size",
                              "zero_optimization.ignore_unused_parameters",
                              "zero_optimization.stage3_*",
                              "zero_optimization.max_*",
                              "zero_optimization.param_persistence_threshold",
                              "zero_optimization.prefetch_bucket_size",
                              "zero_optimization.gather_16bit_weights_on_model_save",
                              "zero_optimization.offload_optimizer.*",
                              "zero_optimization.offload_param.*"};

bool is_harmless(std::string_view key) {
  return std::any_of(harmless.begin(), harmless.end(), [&](std::string_view k) {
    return k.ends_with('*') ? key.starts_with(k.substr(0, k.size() - 1)) : key == k;
  });
}

std::optional<double> number(const LaunchValue& v) {
  double out = 0.0;
  const auto [end, failure] = std::from_chars(v.text.data(), v.text.data() + v.text.size(), out);
  if (!v.items.empty() || failure != std::errc{} || end != v.text.data() + v.text.size() || !std::isfinite(out)) {
    return std::nullopt;
  }
  return out;
}

/// Reads one key; what is neither a known key nor harmless is left aside.
void read_key(DeepSpeedSettings& s, const std::string& key, const LaunchValue& v) {
  if (v.kind == LaunchValue::Kind::none) return;
  if (v.text == "auto") {
    if (key == "zero_optimization.reduce_bucket_size") s.bucket.reset();
    return;
  }
  const auto whole = [&](double least, double most) -> std::optional<std::uint64_t> {
    const std::optional<double> n = number(v);
    if (n && *n >= least && *n <= most && std::floor(*n) == *n) return static_cast<std::uint64_t>(*n);
    s.faults.push_back(key);
    return std::nullopt;
  };
  const auto device = [&](std::string& into) {
    if (v.text == "cpu" || v.text == "nvme" || v.text == "none")
      into = v.text;
    else
      s.faults.push_back(key);
  };
  const std::string zero = "zero_optimization.";
  if (key == zero + "stage") {
    s.stage = static_cast<std::uint32_t>(whole(0, 3).value_or(0));
  } else if (key == zero + "offload_optimizer.device") {
    device(s.states_device);
  } else if (key == zero + "offload_param.device") {
    device(s.parameters_device);
  } else if (key == zero + "offload_optimizer.ratio") {
    const std::optional<double> share = number(v);
    if (share && *share >= 0.0 && *share <= 1.0)
      s.states_share = *share;
    else
      s.faults.push_back(key);
  } else if (key == zero + "overlap_comm") {
    s.overlap = v.text == "true";
  } else if (key == zero + "reduce_bucket_size") {
    if (const auto n = whole(1, 1e15)) s.bucket = static_cast<double>(*n);
  } else if (key == "tensor_parallel.autotp_size") {
    s.tensor = whole(1, 65536);
  } else if (key == "gradient_clipping") {
    const std::optional<double> clip = number(v);
    if (clip && *clip >= 0.0)
      s.clip_norm = *clip;
    else
      s.faults.push_back(key);
  } else if (key == "data_types.grad_accum_dtype") {
    s.gradient_dtype = v.text == "fp32" ? "f32" : v.text == "bf16" ? "bf16" : v.text == "fp16" ? "f16" : "";
  } else if (!is_harmless(key) && v.text != "false") {
    s.left_aside.push_back(key);
  }
}

std::optional<std::string> text_of(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure) || failure) return std::nullopt;
  if (std::filesystem::file_size(path, failure) > largest_file || failure) return std::nullopt;
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

DeepSpeedSettings deepspeed_settings(const LaunchFile& file, std::string_view under) {
  DeepSpeedSettings out;
  const std::string prefix = under.empty() ? "" : std::string(under) + ".";
  for (const LaunchValue& v : file.values) {
    if (v.key.starts_with(prefix)) read_key(out, v.key.substr(prefix.size()), v);
  }
  return out;
}

std::optional<DeepSpeedSettings> deepspeed_file(const std::string& path, const std::filesystem::path& launch_file) {
  if (path.empty() || path.find('\0') != std::string::npos) return std::nullopt;
  std::filesystem::path folder = launch_file.parent_path();
  constexpr int folders = 5;  // sources keep examples at most that deep
  for (int i = 0; i < folders; ++i) {
    if (const std::optional<std::string> text = text_of(folder / path)) {
      Diagnostics ignored;
      const std::optional<LaunchFile> file = parse_launch_yaml(*text, path, ignored);
      return file ? std::optional(deepspeed_settings(*file, "")) : std::nullopt;
    }
    if (!folder.has_relative_path()) break;
    folder = folder.parent_path();
  }
  return std::nullopt;
}

std::optional<DeepSpeedSettings> shipped_deepspeed(const std::string& path) {
  struct Row {
    const char* name;
    std::uint32_t stage;
    const char* states;
    const char* parameters;
    bool overlap;
    std::uint64_t tensor;
  };
  // Sources: axolotl-ai-cloud/axolotl@067b021c deepspeed_configs/*.json, where reductions overlap, and
  // hiyouga/LLaMA-Factory@ff6d4d12 examples/deepspeed/*.json, where they do not.
  static constexpr std::array rows{Row{"zero1", 1, "none", "none", true, 0},
                                   Row{"zero1_torch_compile", 1, "none", "none", true, 0},
                                   Row{"zero2", 2, "cpu", "none", true, 0},
                                   Row{"zero2_torch_compile", 2, "cpu", "none", true, 0},
                                   Row{"zero3", 3, "none", "none", true, 0},
                                   Row{"zero3_bf16", 3, "none", "none", true, 0},
                                   Row{"zero3_bf16_cpuoffload_all", 3, "cpu", "cpu", true, 0},
                                   Row{"zero3_bf16_cpuoffload_params", 3, "none", "cpu", true, 0},
                                   Row{"ds_z0_config", 0, "none", "none", false, 0},
                                   Row{"ds_z2_config", 2, "none", "none", false, 0},
                                   Row{"ds_z2_offload_config", 2, "cpu", "none", false, 0},
                                   Row{"ds_z2_autotp_config", 2, "none", "none", false, 2},
                                   Row{"ds_z3_config", 3, "none", "none", false, 0},
                                   Row{"ds_z3_fp8_config", 3, "cpu", "none", false, 0},
                                   Row{"ds_z3_offload_config", 3, "cpu", "cpu", false, 0}};
  const std::string name = std::filesystem::path(path).stem().string();
  for (const Row& row : rows) {
    if (name != row.name) continue;
    DeepSpeedSettings out;
    out.stage = row.stage;
    out.states_device = row.states;
    out.parameters_device = row.parameters;
    out.overlap = row.overlap;
    if (row.tensor > 0) out.tensor = row.tensor;
    if (row.stage == 3) out.bucket.reset();  // "auto" in all of these but one
    if (name == "ds_z3_fp8_config") out.bucket = 12845056;
    return out;
  }
  return std::nullopt;
}

}  // namespace orrery
