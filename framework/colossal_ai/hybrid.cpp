#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/base/units_text.hpp"
#include "framework/colossal_ai/parts.hpp"

// HybridParallelPlugin: hpcaitech/ColossalAI@4f9953be colossalai/booster/plugin/hybrid_parallel_plugin.py, and
// moe_hybrid_parallel_plugin.py.

namespace orrery {
namespace {

using Size = LaunchSizes::Size;

void read_sequences(const ColossalPlugin& p, LaunchSizes& sizes) {
  LaunchReading& r = p.r;
  const auto sp = p.size("sp_size");
  if (!p.on("enable_sequence_parallelism")) {
    if (sp && sp->value > 1)
      r.error(sp->from, "sp_size needs enable_sequence_parallelism", {fmt::format("It is {}.", sp->value)});
    else if (sp)
      r.take(sp->from, "1");
    for (const char* rest : {"enable_sequence_parallelism", "sequence_parallelism_mode", "inner_ring_size"})
      if (p.value(rest) != nullptr) r.without_effect(p.at(rest), "sequences are not split");
    return;
  }
  r.take(p.at("enable_sequence_parallelism"), "sequences are split");
  const std::string mode_key = p.at("sequence_parallelism_mode");
  const auto mode = r.word(mode_key, {"split_gather", "ring", "all_to_all", "ring_attn"});
  const std::string m = mode.value_or("all_to_all");
  const std::string inner = p.at("inner_ring_size");
  if (m == "split_gather" || m == "ring") {
    if (sizes.tensor.value < 2) {
      r.error(mode_key, fmt::format("{} needs tensor parallelism", m), {"tp_size is 1."});
      return;
    }
    r.set(mode_key, "plan.sequence_parallel", "true");
    if (m == "ring") r.refuse(mode_key, "gathers that go around with the products are not in plans", "split_gather");
    if (sp) r.without_effect(sp->from, "it is the tensor size in this mode");
    if (p.value("inner_ring_size") != nullptr) r.without_effect(inner, "it is for ring_attn");
    return;
  }
  if (sp) sizes.context = *sp;
  if (sizes.context.value > 1) {
    const char* algorithm = m == "all_to_all" ? "\"ulysses\"" : "\"ring\"";
    if (mode)
      r.set(mode_key, "plan.context", algorithm);
    else
      r.assume("plan.context", algorithm, "Colossal-AI's mode is all_to_all unless told otherwise");
    if (m == "ring_attn") r.set(mode_key, "plan.zigzag", "true");
  } else if (mode) {
    r.take(mode_key, "one rank has the sequence");
  }
  const auto ring = r.whole(inner, 1);
  if (ring && m == "ring_attn" && *ring > 1 && *ring < sizes.context.value)
    r.set(inner, "plan.inner_ring", std::to_string(*ring));
  else if (ring)
    r.without_effect(inner, "there is one ring");
}

/// The split without a list: even, and the stages in the middle have what is over (pipeline/stage_manager.py).
std::vector<std::uint64_t> even_split(std::uint64_t layers, std::uint64_t stages) {
  std::vector<std::uint64_t> out(stages, layers / stages);
  const std::uint64_t over = layers % stages, first = stages / 2 - over / 2;
  for (std::uint64_t i = first; i < first + over; ++i) ++out[i];
  return out;
}

/// Layers of each stage, in model order: index stage + chunk x stages, as plans have them.
void read_layers(const ColossalPlugin& p, std::uint64_t stages) {
  const LaunchValue* v = p.value("num_layers_per_stage");
  const ModelSpec* model = p.r.known_model();
  if (v == nullptr) {
    if (model != nullptr && stages <= model->layers && model->layers % stages != 0) {
      p.r.assume("plan.stage_layers", fmt::format("[{}]", fmt::join(even_split(model->layers, stages), ", ")),
                 "the stages in the middle have what is over");
    }
    return;
  }
  std::string list;
  for (const LaunchValue& item : v->items) list += (list.empty() ? "" : ", ") + item.text;
  if (v->kind != LaunchValue::Kind::list || list.find_first_not_of("0123456789, ") != std::string::npos)
    p.r.error(p.at("num_layers_per_stage"), "the layers of stages are a list of whole numbers");
  else
    p.r.set(p.at("num_layers_per_stage"), "plan.stage_layers", "[" + list + "]");
}

std::uint64_t read_schedule(const ColossalPlugin& p, LaunchSizes& sizes) {
  LaunchReading& r = p.r;
  const auto chunks = p.size("num_model_chunks");
  const std::string style_key = p.at("pp_style");
  const auto style = r.word(style_key, {"1f1b", "interleaved", "zbv"});
  const auto count = p.size("num_microbatches"), micro = p.size("microbatch_size");
  if (micro) sizes.micro = *micro;
  if (sizes.pipeline.value == 1) {
    // Without stages the plugin has no microbatches of its own.
    for (const char* rest : {"pp_style", "num_model_chunks", "num_layers_per_stage", "num_microbatches"})
      if (p.value(rest) != nullptr) r.without_effect(p.at(rest), "there is one stage");
    return 1;
  }
  if (count && micro)
    r.without_effect(count->from, "microbatch_size comes first");
  else if (count)
    sizes.accumulation = *count;
  else if (!micro)
    r.error(p.path, "num_microbatches or microbatch_size must be said with a pipeline");
  const std::string s = style.value_or("1f1b");
  const std::uint64_t n = chunks ? chunks->value : 1;
  if ((s == "1f1b" && n != 1) || (s == "interleaved" && n < 2) || (s == "zbv" && n != 2)) {
    r.error(chunks ? chunks->from : style_key, fmt::format("pp_style {} has another number of model chunks", s),
            {fmt::format("num_model_chunks is {}; 1f1b has 1, interleaved 2 or more, zbv 2.", n)});
    return 1;
  }
  const char* name = s == "1f1b" ? "\"1f1b\"" : s == "interleaved" ? "\"interleaved\"" : "\"zb-v\"";
  if (style)
    r.set(style_key, "plan.schedule", name);
  else
    r.assume("plan.schedule", name, "Colossal-AI's pipelines are 1F1B unless told otherwise");
  if (chunks) r.set(chunks->from, "plan.chunks", std::to_string(n));
  read_layers(p, sizes.pipeline.value * n);
  return n;
}

}  // namespace

void read_colossal_checkpoints(const ColossalPlugin& p, std::uint64_t stages, std::uint64_t chunks) {
  LaunchReading& r = p.r;
  const std::string config = p.at("gradient_checkpoint_config");
  if (p.value("gradient_checkpoint_config") == nullptr) {
    if (!r.file().has(config)) return;
  }
  const LaunchValue* counts = r.value(config + ".num_ckpt_layers_per_stage");
  if (const LaunchValue* v = r.value(config)) {
    if (!v->unknown.empty()) {
      r.error(config, fmt::format("gradient_checkpoint_config is {}, which is computed", v->text.substr(0, 60)),
              {"Write PipelineGradientCheckpointConfig(...) in its place."});
      return;
    }
    r.take(config, "which layers are recomputed");
  }
  r.assume("plan.recompute", "\"full\"", "gradient_checkpoint_config is there");
  const std::string ratio_key = config + ".gradient_checkpointing_ratio";
  if (counts != nullptr) {
    std::vector<std::string> each;
    for (const LaunchValue& item : counts->items) each.push_back(item.text);
    // On a V the second chunk's numbers stand in the order of ranks, not of the model.
    const LaunchValue* style = p.value("pp_style");
    if (style != nullptr && style->text == "zbv" && each.size() == 2 * stages)
      std::reverse(each.begin() + static_cast<std::ptrdiff_t>(stages), each.end());
    const std::string list = fmt::format("{}", fmt::join(each, ", "));
    if (counts->kind != LaunchValue::Kind::list || counts->items.size() != stages * chunks) {
      r.error(counts->key, "there is no number of layers for each stage",
              {fmt::format("{} numbers, {} stages with {} chunks.", counts->items.size(), stages, chunks)});
      return;
    }
    r.set(counts->key, "plan.recompute_layers", "[" + list + "]");
  } else if (const auto ratio = r.real(ratio_key)) {
    const LaunchValue* layers = p.value("num_layers_per_stage");
    const ModelSpec* model = r.known_model();
    std::string list;
    // Without a list stages are split evenly.
    std::vector<std::uint64_t> each;
    if (layers != nullptr) {
      for (const LaunchValue& item : layers->items) each.push_back(std::strtoull(item.text.c_str(), nullptr, 10));
    } else if (model != nullptr && stages * chunks <= model->layers) {
      each = even_split(model->layers, stages * chunks);
    }
    for (std::uint64_t n : each) {
      if (*ratio >= 1.0) break;
      list +=
          fmt::format("{}{}", list.empty() ? "" : ", ", static_cast<std::uint64_t>(*ratio * static_cast<double>(n)));
    }
    if (*ratio < 0.0 || *ratio > 1.0)
      r.error(ratio_key, "a ratio is from 0 to 1", {fmt::format("It is {}.", *ratio)});
    else if (list.empty())
      r.take(ratio_key, "all layers");
    else
      r.set(ratio_key, "plan.recompute_layers", "[" + list + "]");
  }
  for (const char* rest : {".gradient_checkpointing_ratio", ".num_stages", ".num_model_chunks", ".num_model_layers"}) {
    const std::string key = config + rest;
    r.without_effect({key}, "the list of layers says it");
  }
}

void read_colossal_hybrid(const ColossalPlugin& p, LaunchSizes& sizes) {
  LaunchReading& r = p.r;
  const bool mixture = p.name == "MoeHybridParallelPlugin";
  for (const auto& [argument, into] : {std::pair{"tp_size", &sizes.tensor}, std::pair{"pp_size", &sizes.pipeline}}) {
    if (const auto s = p.size(argument))
      *into = *s;
    else if (p.value(argument) == nullptr)
      r.error(p.path, fmt::format("{} must be said", argument));
  }
  if (mixture) {
    if (const auto e = p.size("ep_size")) sizes.expert = *e;
  }
  read_sequences(p, sizes);
  const bool outside = p.on(mixture ? "moe_dp_outside" : "dp_outside", true);
  const std::string outside_key = p.at(mixture ? "moe_dp_outside" : "dp_outside");
  if (r.value(outside_key) != nullptr) r.take(outside_key, "the order of ranks");
  const LaunchValue* mode = p.value("sequence_parallelism_mode");
  const bool ring = mode != nullptr && mode->text == "ring_attn";
  sizes.order = outside ? std::vector<std::string>{"data", "pipeline"} : std::vector<std::string>{"pipeline", "data"};
  if (mixture) sizes.order.emplace_back("expert");
  for (const char* inner : ring ? std::array{"context", "tensor"} : std::array{"tensor", "context"})
    sizes.order.emplace_back(inner);

  std::uint64_t stage = r.whole(p.at("zero_stage"), 0, 2).value_or(0);
  if (mixture && stage == 2) {
    r.refuse(p.at("zero_stage"), "MoeHybridParallelPlugin runs stage 2 as stage 1", "ZeRO-1");
    stage = 1;
  }
  if (stage == 2 && sizes.pipeline.value > 1)
    r.error(p.at("zero_stage"), "Colossal-AI's pipelines stop at ZeRO-1", {"zero_stage is 2."});
  if (p.value("zero_stage") != nullptr) r.set(p.at("zero_stage"), "plan.zero_stage", std::to_string(stage));
  const std::uint64_t chunks = read_schedule(p, sizes);
  if (p.on("enable_flash_attention") || ring) {
    if (p.value("enable_flash_attention") != nullptr)
      r.set(p.at("enable_flash_attention"), "plan.attention", "\"flash\"");
    else
      r.assume("plan.attention", "\"flash\"", "ring_attn needs it");
  }
  read_colossal_checkpoints(p, sizes.pipeline.value, chunks);

  const bool overlap = p.on("overlap_communication", !mixture);
  const char* overlap_key = "overlap_communication";
  // With stages gradients are summed behind the last backward pass; DDP alone overlaps without ZeRO.
  const bool overlaps = sizes.pipeline.value == 1 && (stage == 0 || (overlap && !mixture));
  if (p.value(overlap_key) != nullptr)
    r.take(p.at(overlap_key), "whether gradients are summed beside the backward pass");
  r.assume("plan.overlap_gradients", overlaps ? "true" : "false",
           overlaps ? "as the plugin does" : "with a pipeline, or told so, the plugin sums gradients at the end");
  const double mega = 1024.0 * 1024.0;
  const LaunchValue* precision = p.value("precision");
  const double bytes = precision != nullptr && precision->text == "fp32" ? 4.0 : 2.0;
  const char* bucket = stage > 0 ? "zero_bucket_size_in_m" : "ddp_bucket_cap_mb";
  const auto m = p.size(bucket);
  const double amount = stage > 0 ? (m ? static_cast<double>(m->value) : 12.0) * mega * bytes
                                  : (m ? static_cast<double>(m->value) : 25.0) * mega;
  const std::string text = fmt::format("\"{}\"", exact_text(Bytes::of(amount)));
  if (m)
    r.set(m->from, "plan.gradient_bucket", text);
  else
    r.assume("plan.gradient_bucket", text,
             stage > 0 ? "the plugin's buckets have 12 Mi gradients" : "DDP's buckets have 25 MiB");
  if (p.value("cpu_offload") != nullptr) {
    if (p.on("cpu_offload") && stage > 0)
      r.set(p.at("cpu_offload"), "plan.offload_states", "8");
    else
      r.take(p.at("cpu_offload"), "ZeRO alone offloads");
  }
  const LaunchValue* nodes = p.value("scheduler_nodes");
  if (nodes != nullptr && nodes->unknown.empty()) r.take(p.at("scheduler_nodes"), "the order of ZB-V");
  for (const char* rest : {"zero_bucket_size_in_m", "ddp_bucket_cap_mb"})
    if (p.value(rest) != nullptr && !(m && m->from == p.at(rest)))
      r.without_effect(p.at(rest), "gradients take other buckets");
}

}  // namespace orrery
