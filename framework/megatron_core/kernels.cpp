#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/megatron_core/read.hpp"

// Attention's kernel and recomputation: core/transformer/transformer_config.py, NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

/// Whether scores stay on the chip. Transformer Engine has such kernels of its own beside FlashAttention's.
bool is_flash(MegatronFlags& f) {
  const auto backend = f.word("--attention-backend", {"flash", "fused", "unfused", "local", "auto"});
  const std::string impl = f.known_text("--transformer-impl").value_or("transformer_engine");
  f.take("--transformer-impl", "kernels");
  const bool named = f.on("--use-flash-attn") || (backend && (*backend == "flash" || *backend == "fused"));
  const bool unfused = backend && (*backend == "unfused" || *backend == "local");
  const bool flash = named || (!unfused && impl != "local");
  const char* value = flash ? "\"flash\"" : "\"unfused\"";
  if (backend) f.set("--attention-backend", "plan.attention", value);
  f.take("--use-flash-attn", "flash attention");
  f.reading().assume("plan.attention", value,
                     impl == "local" ? "local layers have no fused attention" : "Transformer Engine chooses so");
  return flash;
}

void selective(MegatronFlags& f, bool flash) {
  std::vector<std::string> modules = f.words("--recompute-modules");
  const char* flag = f.has("--recompute-modules")       ? "--recompute-modules"
                     : f.has("--recompute-granularity") ? "--recompute-granularity"
                                                        : "--recompute-activations";
  if (modules.empty()) modules.emplace_back("core_attn");
  const bool core = std::find(modules.begin(), modules.end(), "core_attn") != modules.end();
  for (const char* said : {"--recompute-granularity", "--recompute-activations"})
    f.take(said, flash ? "the attention core, which keeps no scores anyway" : "the attention core");
  if (core && !flash) f.set(flag, "plan.recompute", "\"selective\"");
  if (modules.size() > (core ? 1U : 0U)) {
    f.refuse(flag, fmt::format("parts of layers are recomputed: {}", fmt::join(modules, ", ")),
             core && !flash ? "the attention core" : "nothing");
  } else {
    f.take(flag, flash ? "the attention core, which keeps no scores anyway" : "the attention core");
  }
}

void full(MegatronFlags& f, const std::vector<std::uint64_t>& stages) {
  f.set(f.has("--recompute-granularity") ? "--recompute-granularity" : "--checkpoint-activations", "plan.recompute",
        "\"full\"");
  const auto method = f.word("--recompute-method", {"uniform", "block"});
  const std::uint64_t count = f.whole("--recompute-num-layers", 1).value_or(1);
  f.take("--recompute-method", "recomputed layers");
  f.take("--recompute-num-layers", "recomputed layers");
  if (f.on("--distribute-saved-activations"))
    f.refuse("--distribute-saved-activations", "kept inputs of layers are shared over the tensor axis",
             "a copy on each rank");
  if (method.value_or("uniform") == "uniform") {
    if (count > 1)
      f.refuse("--recompute-num-layers", fmt::format("the input of one layer in {} is kept", count),
               "that of each layer");
    return;
  }
  std::vector<std::uint64_t> each;
  bool all = true;
  for (const std::uint64_t layers : stages) {
    each.push_back(std::min(count, layers));
    all = all && count >= layers;
  }
  if (!all) f.set("--recompute-num-layers", "plan.recompute_layers", fmt::format("[{}]", fmt::join(each, ", ")));
}

}  // namespace

void read_megatron_kernels(MegatronFlags& f, const std::vector<std::uint64_t>& stages) {
  const bool flash = is_flash(f);
  const auto granularity = f.word("--recompute-granularity", {"full", "selective"});
  if (granularity.value_or("") == "full" || f.on("--checkpoint-activations"))
    full(f, stages);
  else if (granularity || f.on("--recompute-activations"))
    selective(f, flash);
  if (f.on("--moe-layer-recompute"))
    f.refuse("--moe-layer-recompute", "the experts' part of layers is recomputed", "nothing");
  f.without_effect({"--recompute-*", "--checkpoint-*", "--distribute-saved-activations"}, "nothing is recomputed");
}

}  // namespace orrery
