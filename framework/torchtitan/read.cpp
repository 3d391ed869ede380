#include <algorithm>

#include "framework/torchtitan/reading.hpp"

namespace orrery {

bool is_torchtitan_toml(const LaunchFile& file) {
  return file.has("model.flavor") || file.has("parallelism.data_parallel_shard_degree") ||
         file.has("training.local_batch_size") || file.has("job.dump_folder");
}

void read_torchtitan_toml(LaunchReading& r) { TitanReading(r).read(); }

void TitanReading::read() {
  const std::size_t before = r_.diagnostics().size();
  if (!model()) return;
  converters();
  sizes();
  sharding();
  context();
  stages();
  recomputation();
  training();
  no_effects();
  // What a mistake left out is not unknown.
  if (r_.diagnostics().size() == before) return;
  without_effect({"parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule_csv",
                  "parallelism.pipeline_parallel_layers_per_stage", "parallelism.module_fqns_per_model_part",
                  "parallelism.pipeline_parallel_first_stage_less_layers", "training.seq_len",
                  "parallelism.pipeline_parallel_last_stage_less_layers", "parallelism.pipeline_parallel_split_points",
                  "parallelism.pipeline_parallel_microbatch_size"},
                 "another key has a mistake");
}

void TitanReading::without_effect(std::initializer_list<std::string_view> names, const char* why) {
  for (const std::string_view name : names) r_.without_effect({name}, why);
}

void TitanReading::set_or_assume(std::string_view name, std::string_view plan_key, const std::string& toml) {
  if (has(name)) {
    r_.set(name, plan_key, toml);
  } else {
    r_.assume(plan_key, toml, "torchtitan's default");
  }
}

std::vector<std::string> TitanReading::texts(std::string_view name) {
  const LaunchValue* v = r_.value(name);
  std::vector<std::string> out;
  if (v == nullptr) return out;
  if (v->kind == LaunchValue::Kind::list) {
    for (const LaunchValue& item : v->items) out.push_back(item.text);
    return out;
  }
  std::string word;
  for (const char c : v->text + ",") {
    if (c == ',') {
      if (!word.empty()) out.push_back(word);
      word.clear();
    } else if (c != ' ' && c != '[' && c != ']' && c != '"' && c != '\'') {
      word += c;
    }
  }
  return out;
}

}  // namespace orrery
