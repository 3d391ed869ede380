#include "framework/megatron_core/read.hpp"

#include <array>

namespace orrery {

namespace {

/// Flags of older releases, by the names that they have had since.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> older{
    {{"--use-custom-fsdp", "--use-megatron-fsdp"}, {"--fp8-hybrid", "--fp8-format"}, {"--fp8-e4m3", "--fp8-format"}}};

void rename_older(MegatronFlags::Keys& keys) {
  for (const auto& [before, since] : older) {
    const auto at = keys.find(before);
    if (at == keys.end() || keys.contains(since)) continue;
    keys[std::string(since)] = at->second;
    keys.erase(at);
  }
}

}  // namespace

void read_megatron_flags(MegatronFlags& f) {
  if (refuse_foreign(f)) return;
  const std::uint64_t tensor = f.whole("--tensor-model-parallel-size", 1).value_or(1);
  read_megatron_model(f, tensor);
  const LaunchSizes sizes = read_megatron_sizes(f);
  put_sizes(f.reading(), sizes);
  const std::vector<std::uint64_t> stages = read_megatron_stages(f, sizes.pipeline.value);
  read_megatron_memory(f, sizes);
  read_megatron_kernels(f, stages);
  read_megatron_training(f);
  ignore_megatron_flags(f);
}

bool is_megatron_script(const LaunchFile& file) {
  const auto has = [&](const char* flag) { return file.find(flag) != nullptr; };
  return has("--tensor-model-parallel-size") || has("--pipeline-model-parallel-size") ||
         has("--use-distributed-optimizer") || has("--num-query-groups") ||
         (has("--num-layers") && has("--hidden-size") && has("--num-attention-heads"));
}

void read_megatron_script(LaunchReading& r) {
  MegatronFlags::Keys keys;
  for (const LaunchValue& v : r.file().values) {
    if (v.key.starts_with("--")) keys[v.key] = v.key;
  }
  rename_older(keys);
  MegatronFlags flags(r, std::move(keys));
  read_megatron_flags(flags);
}

bool is_megatron_args(const LaunchFile& file) { return file.has("MODEL_ARGS"); }

void read_megatron_args(LaunchReading& r) {
  constexpr std::string_view table = "MODEL_ARGS.";
  MegatronFlags::Keys keys;
  bool fields = false;
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with(table)) continue;
    const std::string_view key = std::string_view(v.key).substr(table.size());
    fields = fields || !key.starts_with("--");
    if (key.starts_with("--")) keys[std::string(key)] = v.key;
  }
  const auto belongs_to_test = [&] {
    r.without_effect({"ENV_VARS*", "TEST_TYPE*", "LAUNCHER*", "METRICS*", "MODE", "AFTER_SCRIPT*", "BEFORE_SCRIPT*",
                      "TEST_EVALUATION*", "SKIP_PYTEST*", "ARTIFACTS*", "OUTPUT_PATH*"},
                     "it belongs to the test");
  };
  if (keys.empty() && fields) {
    if (r.known_model() == nullptr) {  // sizes alone do not tell the kinds of its layers
      r.error("MODEL_ARGS", "the model stands in a recipe that the file does not name",
              {"Give a name or a config.json with --model."});
      for (const LaunchValue& v : r.file().values) r.without_effect({std::string_view(v.key)}, "nothing is planned");
      return;
    }
    read_bridge_fields(r, table);
    return belongs_to_test();
  }
  if (keys.empty()) {
    r.error("MODEL_ARGS", "there are no flags");
    for (const LaunchValue& v : r.file().values) r.without_effect({std::string_view(v.key)}, "nothing is planned");
    return;
  }
  if (const auto mode = r.text("MODE"); mode && *mode == "inference") {
    r.error("MODE", "the run answers prompts and trains nothing");
    for (const LaunchValue& v : r.file().values) r.without_effect({std::string_view(v.key)}, "nothing is planned");
    return;
  }
  rename_older(keys);
  MegatronFlags flags(r, std::move(keys));
  read_megatron_flags(flags);
  belongs_to_test();
}

}  // namespace orrery
