#include "framework/torchtitan/models.hpp"

#include <fmt/format.h>

#include <algorithm>

// Shapes are those of pytorch/torchtitan@73a0e6979 (v0.2.2), torchtitan/models/*/__init__.py and model/args.py.

namespace orrery {
namespace {

/// Released weights have a prediction module, which torchtitan does not train.
void no_prediction(ModelSpec& m) { m.prediction_modules = 0; }

void llama3_debug(ModelSpec& m) {
  m.layers = 6, m.hidden = 256, m.heads = m.kv_heads = 16, m.head_dim = 16, m.ffn = 768, m.vocabulary = 2048;
}

void deepseek_debug(ModelSpec& m) {
  m.layers = 6, m.hidden = 256, m.ffn = 1024, m.vocabulary = 2048;
  m.mixture->experts = 8, m.mixture->per_token = 3, m.mixture->ffn = 256, m.mixture->shared_ffn = 512;
  m.mixture->first_dense = 1;
}

void qwen3_debug(ModelSpec& m) { m.layers = 8, m.hidden = 256, m.ffn = 3072, m.vocabulary = 2048; }

void qwen3_moe_debug(ModelSpec& m) {
  m.layers = 8, m.hidden = 256, m.heads = 16, m.kv_heads = 8, m.ffn = 3072, m.vocabulary = 2048;
  m.mixture->experts = 64, m.mixture->per_token = 8, m.mixture->ffn = 768;
}

/// Only the flavors "irope" have layers without rotation and layers that see chunks; none has norms of queries.
void llama4_irope(ModelSpec& m) { m.query_key_norm = QueryKeyNorm::none; }
void llama4_plain(ModelSpec& m) {
  llama4_irope(m);
  m.local.reset();
  m.unrotated = {};
}
/// Feed-forward widths: 8/3 of 256 rounded up to 256; experts have half of it, rounded up.
void llama4_debug_irope(ModelSpec& m) {
  llama4_irope(m);
  m.layers = 6, m.hidden = 256, m.heads = m.kv_heads = 16, m.head_dim = 16, m.ffn = 768, m.vocabulary = 2048;
  m.mixture->experts = 8, m.mixture->ffn = m.mixture->shared_ffn = 512;
  if (m.local) m.local->size = 256;
}
void llama4_debug(ModelSpec& m) {
  llama4_debug_irope(m);
  m.local.reset();
  m.unrotated = {};
}

void gpt_oss_debug(ModelSpec& m) { m.layers = 4, m.hidden = 256, m.mixture->experts = 8; }

/// What stands behind the size only chooses an attention kernel or its mask.
std::string_view plain_flavor(std::string_view flavor) {
  for (const std::string_view ending : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (flavor.ends_with(ending)) return flavor.substr(0, flavor.size() - ending.size());
  }
  return flavor;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

}  // namespace

const std::vector<TitanModel>& titan_models() {
  static const std::vector<TitanModel> models{
      {"llama3", "8B", "llama-3.1-8b", nullptr, "llama-3-8b"},
      {"llama3", "70B", "llama-3.1-70b", nullptr, "llama-3-70b"},
      {"llama3", "405B", "llama-3.1-405b", nullptr, "llama-3-405b"},
      {"llama3", "debugmodel", "llama-3.1-8b", llama3_debug},
      {"deepseek_v3", "16B", "deepseek-v2-lite"},
      {"deepseek_v3", "236B", "deepseek-v2"},
      {"deepseek_v3", "671B", "deepseek-v3", no_prediction},
      {"deepseek_v3", "debugmodel", "deepseek-v2-lite", deepseek_debug},
      {"qwen3", "0.6B", "qwen3-0.6b"},
      {"qwen3", "1.7B", "qwen3-1.7b"},
      {"qwen3", "4B", "qwen3-4b"},
      {"qwen3", "8B", "qwen3-8b"},
      {"qwen3", "14B", "qwen3-14b"},
      {"qwen3", "32B", "qwen3-32b"},
      {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
      {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
      {"qwen3", "debugmodel", "qwen3-0.6b", qwen3_debug},
      {"qwen3", "debugmodel_moe", "qwen3-30b-a3b", qwen3_moe_debug},
      {"llama4", "17bx16e", "llama-4-scout-109b-a17b", llama4_plain},
      {"llama4", "17bx128e", "llama-4-maverick-400b-a17b", llama4_plain},
      {"llama4", "17bx16e_irope", "llama-4-scout-109b-a17b", llama4_irope},
      {"llama4", "17bx128e_irope", "llama-4-maverick-400b-a17b", llama4_irope},
      {"llama4", "debugmodel", "llama-4-maverick-400b-a17b", llama4_debug},
      {"llama4", "debugmodel_irope", "llama-4-maverick-400b-a17b", llama4_debug_irope},
      {"gpt_oss", "20b", "gpt-oss-20b"},
      {"gpt_oss", "120b", "gpt-oss-120b"},
      {"gpt_oss", "debugmodel", "gpt-oss-20b", gpt_oss_debug},
  };
  return models;
}

const TitanModel* titan_model_named(std::string_view name, std::string_view flavor) {
  const std::size_t mark = name.find_last_of("./");
  if (mark != std::string_view::npos) name.remove_prefix(mark + 1);
  const auto& all = titan_models();
  const auto at = std::find_if(all.begin(), all.end(), [&](const TitanModel& m) {
    return m.name == name && lowered(m.flavor) == lowered(plain_flavor(flavor));
  });
  return at == all.end() ? nullptr : &*at;
}

const TitanModel* titan_model_of(std::string_view spec_name) {
  const auto& all = titan_models();
  const auto at = std::find_if(all.begin(), all.end(), [&](const TitanModel& m) {
    return m.shape == nullptr ? m.shipped == spec_name || (!m.unstretched.empty() && m.unstretched == spec_name)
                              : own_name(m) == spec_name;
  });
  return at == all.end() ? nullptr : &*at;
}

std::string own_name(const TitanModel& m) { return fmt::format("torchtitan-{}-{}", m.name, m.flavor); }

}  // namespace orrery
