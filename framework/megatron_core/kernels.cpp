#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
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

/// The layers that a launch file describes, as far as modules go. Over a recipe the file does not say.
struct Layers {
  bool mixtures, dense, shared, latent, fused_norms;
};
Layers layers_of(const MegatronFlags& f) {
  if (f.is_over_recipe()) return {true, true, true, true, false};
  const bool mixtures = f.has("--num-experts");
  const std::string frequency = f.known_text("--moe-layer-freq").value_or("1");
  return {mixtures, !mixtures || frequency != "1", f.has("--moe-shared-expert-intermediate-size"),
          f.on("--multi-latent-attention"), f.known_text("--transformer-impl").value_or("") != "local"};
}

/// Why naming the module changes nothing; empty where it does.
std::string without_use(const std::string& module, const Layers& l, bool flash) {
  if (module == "core_attn" && flash) return "the attention core, which keeps no scores anyway";
  if (module == "layernorm" && l.fused_norms && !l.mixtures && !l.latent)
    return "norms, which are a part of the products behind them";
  if ((module == "moe" || module == "moe_act") && !l.mixtures) return "experts, which the model does not have";
  if (module == "shared_experts" && !l.shared) return "shared experts, which the model does not have";
  if (module == "mla_up_proj" && !l.latent) return "latent attention, which the model does not have";
  if (module == "mlp" && !l.dense) return "dense layers, which the model does not have";
  return {};
}

/// Modules by the names of plans, which are Megatron's.
void selective(MegatronFlags& f, bool flash) {
  std::vector<std::string> modules = f.words("--recompute-modules");
  const char* flag = f.has("--recompute-modules")       ? "--recompute-modules"
                     : f.has("--recompute-granularity") ? "--recompute-granularity"
                     : f.has("--moe-layer-recompute")   ? "--moe-layer-recompute"
                                                        : "--recompute-activations";
  // Standing alone, --moe-layer-recompute means the experts' part alone.
  const bool asked = f.on("--recompute-activations") || f.has("--recompute-granularity");
  if (modules.empty() && asked) modules.emplace_back("core_attn");
  if (f.on("--moe-layer-recompute")) modules.emplace_back("moe");
  const Layers layers = layers_of(f);
  unsigned set = 0;
  std::string says = "parts of layers";
  std::vector<std::string> unknown;
  for (const std::string& module : modules) {
    const auto& names = recompute_module_names();
    const auto at = std::find(names.begin(), names.end(), module);
    if (at == names.end()) {
      unknown.push_back(module);
    } else if (std::string why = without_use(module, layers, flash); !why.empty()) {
      says = std::move(why);
    } else {
      set |= 1U << static_cast<unsigned>(at - names.begin());
    }
  }
  for (const char* said : {"--recompute-granularity", "--recompute-activations", "--moe-layer-recompute"})
    f.take(said, set == 0 ? says : "parts of layers");
  if (set != 0) {
    f.set(flag, "plan.recompute", "\"selective\"");
    if (set != set_of(RecomputeModule::core_attn))
      f.set(flag, "plan.recompute_modules", fmt::format("\"{}\"", recompute_set_names()[set]));
  }
  const std::string now = set == 0 ? "nothing" : std::string(recompute_set_names()[set]);
  if (!unknown.empty()) {
    f.refuse(flag, fmt::format("parts of layers are recomputed: {}", fmt::join(unknown, ", ")), now);
  } else if (has_module(static_cast<RecomputeModules>(set), RecomputeModule::layernorm) && layers.fused_norms &&
             !layers.latent) {
    f.refuse(flag, "norms in front of attention are a part of its product, and are kept", "all norms recomputed");
  } else if (set == 0) {
    f.take(flag, says);
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
  else if (granularity || f.on("--recompute-activations") || f.on("--moe-layer-recompute"))
    selective(f, flash);
  f.without_effect({"--recompute-*", "--checkpoint-*", "--distribute-saved-activations"}, "nothing is recomputed");
}

}  // namespace orrery
