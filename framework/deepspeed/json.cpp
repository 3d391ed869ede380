#include "framework/deepspeed/json.hpp"

#include "framework/launch/launch_sizes.hpp"

namespace orrery {

bool is_deepspeed_json(const LaunchFile& file) {
  return file.has("zero_optimization") || file.has("train_micro_batch_size_per_gpu") || file.has("train_batch_size");
}

void read_deepspeed_json(LaunchReading& r) {
  LaunchSizes sizes;
  const auto size = [&](const char* key) -> std::optional<LaunchSizes::Size> {
    const auto value = r.whole(key, 1);
    return value ? std::optional(LaunchSizes::Size{*value, key}) : std::nullopt;
  };
  sizes.micro = size("train_micro_batch_size_per_gpu");
  sizes.batch = size("train_batch_size");
  sizes.accumulation = size("gradient_accumulation_steps");
  put_sizes(r, sizes);
  if (const auto stage = r.whole("zero_optimization.stage", 0, 3)) {
    r.set("zero_optimization.stage", "plan.zero_stage", std::to_string(*stage));
  }
}

}  // namespace orrery
