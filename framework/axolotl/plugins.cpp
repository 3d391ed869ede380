#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/axolotl/yaml.hpp"
#include "framework/trainer/keys.hpp"
#include "framework/trainer/loss.hpp"

// Plugins, by the package that a name ends behind: "axolotl.integrations.liger.LigerPlugin" is liger.
// Source: axolotl-ai-cloud/axolotl@067b021c src/axolotl/integrations.

namespace orrery {
namespace {

/// Plugins that change no step in a plan, or that only turn on keys which are read elsewhere.
constexpr std::array harmless{"liger", "kernels", "expert_parallel", "lm_eval", "swanlab", "cut_cross_entropy"};

/// The package of a plugin, or its whole name where it has none.
std::string package_of(const std::string& name) {
  constexpr std::string_view root = "axolotl.integrations.";
  if (!name.starts_with(root)) return name;
  const std::size_t end = name.find('.', root.size());
  return name.substr(root.size(), end == std::string::npos ? end : end - root.size());
}

}  // namespace

void read_axolotl_plugins(LaunchReading& r) {
  bool cuts = false;
  if (const LaunchValue* list = r.value("plugins")) {
    std::vector<std::string> names;
    for (const LaunchValue& item : list->items) names.push_back(package_of(item.text));
    if (list->items.empty() && !list->text.empty()) names.push_back(package_of(list->text));
    for (const std::string& name : names) {
      cuts = cuts || name == "cut_cross_entropy";
      if (name == "llm_compressor") {
        r.refuse("plugins", "masks that keep weights sparse are not in plans", "dense weights");
      } else if (name == "grokfast") {
        r.refuse("plugins", "a moving average of gradients is not in plans", "the optimizer alone");
      } else if (name == "diffusion" || name == "kd" || name == "spectrum" || name == "mora" || name == "hatchery" ||
                 name == "nemo_gym" || name == "densemixer") {
        end_reading(r, "plugins", fmt::format("the plugin {} trains what is not in plans yet", name));
      } else if (std::find(harmless.begin(), harmless.end(), name) == harmless.end()) {
        r.error("plugins", fmt::format("nothing is known of the plugin {}", name.substr(0, 80)));
      }
    }
  }
  r.without_effect({"plugins"}, "of kernels, logs and evaluation");
  const auto cut = r.toggle("cut_cross_entropy");
  if (cut.value_or(cuts)) {
    refuse_fused_loss(r, cut ? "cut_cross_entropy" : "plugins");
  } else if (cut) {
    r.without_effect("cut_cross_entropy", "it is off");
  }
  if (r.toggle("liger_fused_linear_cross_entropy").value_or(false)) {
    put_liger_loss(r, "liger_fused_linear_cross_entropy");
  }
  // The loss gets all logits, and casts a piece of them at a time.
  if (r.toggle("chunked_cross_entropy").value_or(false)) {
    r.refuse("chunked_cross_entropy", "a loss that casts logits piece by piece is not in plans", "logits of one type");
  }
  r.without_effect({"chunked_cross_entropy"}, "it is off");
  r.without_effect({"liger_*", "chunked_cross_entropy_num_chunks", "use_scattermoe", "use_sonicmoe", "expert_backend",
                    "moe_*", "nonexpert_quantization", "nvfp4_merge_*", "dsv4_*", "gemma4_*", "use_dsv4_kernels",
                    "use_glm_dsa_kernels", "experts_implementation", "use_kernels", "fused_attn_kernel",
                    "large_head_attention", "sdpa_varlen", "flash_attn_d512"},
                   "of kernels, which are priced with the software");
  r.without_effect({"expert_parallel_backend", "expert_parallel_num_*", "expert_parallel_fallback_on_unsupported"},
                   "of kernels, which are priced with the software");
  r.without_effect({"lm_eval_*", "swanlab_*", "use_swanlab"}, "of logs and evaluation");
  r.without_effect({"llmcompressor*", "grokfast_*"}, "of its plugin");
}

}  // namespace orrery
