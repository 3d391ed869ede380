#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "framework/accelerate/parts.hpp"
#include "framework/deepspeed/json.hpp"

// deepspeed_config: src/accelerate/utils/dataclasses.py (DeepSpeedPlugin) of huggingface/accelerate@16cb6eb8.

namespace orrery {
namespace {

constexpr std::string_view group = "deepspeed_config.";

/// Keys of Accelerate, and the same ones of DeepSpeed.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> names{
    {{"zero_stage", "zero_optimization.stage"},
     {"gradient_accumulation_steps", "gradient_accumulation_steps"},
     {"gradient_clipping", "gradient_clipping"},
     {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
     {"offload_param_device", "zero_optimization.offload_param.device"},
     {"train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"},
     {"train_batch_size", "train_batch_size"}}};

/// Text of the file that a key names, beside this one; empty, with a mistake, where it cannot be read.
std::optional<std::string> text_beside(LaunchReading& r, const std::string& key, std::filesystem::path& path) {
  path = std::filesystem::path(r.file().origin.file).parent_path() / path;
  std::error_code failed;
  std::ifstream in(path, std::ios::binary);
  constexpr std::uintmax_t most = std::uintmax_t{1} << 22;
  if (!in || !std::filesystem::is_regular_file(path, failed) || std::filesystem::file_size(path, failed) > most) {
    r.error(key, "the DeepSpeed configuration cannot be read", {fmt::format("It is looked for at {}.", path.string())});
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

void read_accelerate_deepspeed(LaunchReading& r, const LaunchSizes& sizes, const std::string& precision) {
  const std::string file_key = std::string(group) + "deepspeed_config_file";
  const auto rest = [&] {
    r.without_effect({"deepspeed_config", "deepspeed_config.*"}, "it is for loading, checkpoints and the launcher");
  };
  DeepSpeedOutside outside;
  if (sizes.gpus) outside.gpus = sizes.gpus->value;
  if (sizes.accumulation) outside.accumulation = sizes.accumulation->value;
  if (sizes.context.value > 1) outside.context = sizes.context.value;
  if (sizes.sequence) outside.sequence = sizes.sequence->value;
  if (r.value("mixed_precision") != nullptr) outside.precision = precision;
  if (precision == "fp8") outside.precision = "bf16";

  std::optional<LaunchFile> other;
  if (const auto named = r.text(file_key); named && *named != "none") {
    std::filesystem::path path = *named;
    const std::optional<std::string> text = text_beside(r, file_key, path);
    if (!text) return rest();
    r.take(file_key, "the rest of the configuration");
    other = parse_launch_yaml(*text, path.string(), r.diagnostics());
    if (!other) return rest();
  } else {
    // The same values under DeepSpeed's names. Accelerate's ZeRO stage is 2 unless told otherwise.
    other = LaunchFile{LaunchSyntax::yaml, r.file().origin, {}};
    for (const auto& [mine, theirs] : names) {
      const std::string key = std::string(group) + std::string(mine);
      const LaunchValue* v = r.value(key);
      if (v == nullptr) continue;
      if (mine.ends_with("_device") && v->text == "null") continue;
      other->values.push_back(*v);
      other->values.back().key = theirs;
      r.take(key, fmt::format("DeepSpeed's {}", theirs));
    }
    if (r.value(std::string(group) + "zero_stage") == nullptr) {
      r.assume("plan.zero_stage", "2", "Accelerate's ZeRO stage is 2 unless told otherwise");
      LaunchValue stage;
      stage.key = "zero_optimization.stage";
      stage.kind = LaunchValue::Kind::number;
      stage.text = "2";
      other->values.push_back(std::move(stage));
    }
  }
  LaunchReading inner(*other, r.options(), r.library(), r.diagnostics());
  read_deepspeed(inner, outside);
  r.include(file_key, inner);
  rest();
}

}  // namespace orrery
