#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

template <class E>
std::string_view at(const std::vector<std::string_view>& names, E value) {
  ORRERY_ASSERT(static_cast<std::size_t>(value) < names.size(), value);
  return names[static_cast<std::size_t>(value)];
}

}  // namespace

const std::vector<std::string_view>& pipeline_schedule_names() {
  static const std::vector<std::string_view> names = {
      "gpipe", "1f1b",   "eager-1f1b", "interleaved", "breadth-first", "zb-h1",   "zb-h2",
      "zb-v",  "custom", "v-half",     "v-min",       "dualpipe-v",    "chimera", "dualpipe"};
  return names;
}

const std::vector<std::string_view>& context_names() {
  static const std::vector<std::string_view> names = {"all_gather", "ulysses", "ring", "ring_self_attention"};
  return names;
}

const std::vector<std::string_view>& tensor_names() {
  static const std::vector<std::string_view> names = {"1d", "2d", "2.5d", "3d"};
  return names;
}

const std::vector<std::string_view>& expert_folding_names() {
  static const std::vector<std::string_view> names = {"none", "context", "tensor", "context+tensor"};
  return names;
}

const std::vector<std::string_view>& expert_dispatch_names() {
  static const std::vector<std::string_view> names = {"all_to_all", "all_gather"};
  return names;
}

const std::vector<std::string_view>& recompute_module_names() {
  static const std::vector<std::string_view> names = {"core_attn", "layernorm", "moe_act",       "mla_up_proj",
                                                      "mlp",       "moe",       "shared_experts"};
  return names;
}

const std::vector<std::string_view>& recompute_set_names() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all = {"none"};
    for (std::uint32_t set = 1; set < 1U << recompute_module_count; ++set) {
      std::string text;
      for (std::uint32_t m = 0; m < recompute_module_count; ++m) {
        if ((set >> m & 1U) == 0) continue;
        if (!text.empty()) text += '+';
        text += recompute_module_names()[m];
      }
      all.push_back(std::move(text));
    }
    return all;
  }();
  static const std::vector<std::string_view> names(texts.begin(), texts.end());
  return names;
}

const std::vector<std::string_view>& recompute_names() {
  static const std::vector<std::string_view> names = {"none", "selective", "full"};
  return names;
}

const std::vector<std::string_view>& offload_tier_names() {
  static const std::vector<std::string_view> names = {"host", "disk"};
  return names;
}

const std::vector<std::string_view>& attention_names() {
  static const std::vector<std::string_view> names = {"unfused", "flash"};
  return names;
}

const std::vector<std::string_view>& algorithm_names() {
  static const std::vector<std::string_view> names = {"ring", "tree", "recursive", "in_network"};
  return names;
}

std::string_view name_of(ScheduleName value) { return at(pipeline_schedule_names(), value); }
std::string_view name_of(ContextAlgorithm value) { return at(context_names(), value); }
std::string_view name_of(TensorAlgorithm value) { return at(tensor_names(), value); }
std::string_view name_of(ExpertFolding value) { return at(expert_folding_names(), value); }
std::string_view name_of(ExpertDispatch value) { return at(expert_dispatch_names(), value); }
std::string_view name_of(Recompute value) { return at(recompute_names(), value); }
std::string_view name_of(OffloadTier value) { return at(offload_tier_names(), value); }
std::string_view name_of(AttentionKernel value) { return at(attention_names(), value); }
std::string_view name_of(CollectiveAlgorithm value) { return at(algorithm_names(), value); }

}  // namespace orrery
