#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/spec/spec_check.hpp"
#include "core/spec/yarn_constants.hpp"
#include "framework/megatron_core/read.hpp"

// Mixtures of experts and latent attention: core/transformer/transformer_config.py and
// core/transformer/moe/moe_utils.py of NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

/// Reads "[0]*3+[1,0]*2": lists of 0 and 1, repeated and joined.
std::optional<std::vector<bool>> joined_lists(const std::string& text, std::uint64_t most) {
  std::vector<bool> out;
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] != '[') return std::nullopt;
    std::vector<bool> part;
    for (++i; i < text.size() && text[i] != ']'; ++i) {
      if (text[i] == '0' || text[i] == '1')
        part.push_back(text[i] == '1');
      else if (text[i] != ',')
        return std::nullopt;
    }
    if (i++ >= text.size()) return std::nullopt;
    std::uint64_t times = 1;
    if (i < text.size() && text[i] == '*') {
      times = 0;
      for (++i; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0 && times <= most; ++i)
        times = times * 10 + static_cast<std::uint64_t>(text[i] - '0');
    }
    if (part.size() * times > most || part.size() > most || times > most) return std::nullopt;
    for (std::uint64_t k = 0; k < times; ++k) out.insert(out.end(), part.begin(), part.end());
    if (i < text.size() && text[i] == '+') ++i;
  }
  return out;
}

/// The layers of a mixture as first_dense, every and dense.
void place(Mixture& m, const std::vector<bool>& mixtures) {
  const auto first = std::find(mixtures.begin(), mixtures.end(), true);
  m.first_dense = static_cast<std::uint64_t>(first - mixtures.begin());
  m.every = 1;
  if (first == mixtures.end()) return;
  const auto second = std::find(first + 1, mixtures.end(), true);
  const std::uint64_t step = second == mixtures.end() ? 1 : static_cast<std::uint64_t>(second - first);
  bool regular = true;
  for (std::size_t l = m.first_dense; l < mixtures.size(); ++l)
    regular = regular && mixtures[l] == ((l - m.first_dense) % step == 0);
  if (regular) {
    m.every = step;
    return;
  }
  for (std::size_t l = m.first_dense; l < mixtures.size(); ++l) {
    if (!mixtures[l]) m.dense.push_back(static_cast<std::uint32_t>(l));
  }
}

void read_router(MegatronFlags& f, Mixture& m) {
  m.per_token = static_cast<std::uint32_t>(f.whole("--moe-router-topk", 1, max_width).value_or(2));
  f.take("--moe-router-topk", "experts of a token");
  m.scores = f.on("--moe-router-pre-softmax") ? Mixture::Scores::softmax_all : Mixture::Scores::softmax_chosen;
  if (const auto score = f.word("--moe-router-score-function", {"softmax", "sigmoid", "sqrtsoftplus"});
      score && *score != "softmax") {
    m.scores = Mixture::Scores::sigmoid;
  }
  f.take("--moe-router-score-function", "gates");
  f.take("--moe-router-pre-softmax", "gates");
  if (const auto scale = f.real("--moe-router-topk-scaling-factor")) m.scale = *scale;
  f.take("--moe-router-topk-scaling-factor", "the scale of gates");
  if (const auto groups = f.whole("--moe-router-num-groups", 1, 1024); groups && *groups > 1) {
    m.groups = static_cast<std::uint32_t>(*groups);
    m.groups_per_token = static_cast<std::uint32_t>(f.whole("--moe-router-group-topk", 1, 1024).value_or(*groups));
    // A group is worth the sum of as many best scores as a token takes of each group.
    if (m.groups_per_token > 0 && m.per_token / m.groups_per_token >= 2) m.group_score = Mixture::GroupScore::two_best;
  }
  f.take("--moe-router-num-groups", "groups of experts");
  f.take("--moe-router-group-topk", "groups of experts");
  m.score_bias = f.on("--moe-router-enable-expert-bias");
  f.take("--moe-router-enable-expert-bias", "a bias that the choice sees");
  m.shared_gate = f.on("--moe-shared-expert-gate");
  f.take("--moe-shared-expert-gate", "a gate of shared experts");
}

void read_routing(MegatronFlags& f) {
  if (const auto weight = f.real("--moe-aux-loss-coeff"))
    f.set("--moe-aux-loss-coeff", "workload.routing.auxiliary_loss", fmt::format("{}", *weight));
  const auto capacity = f.real("--moe-expert-capacity-factor");
  if (capacity && *capacity > 0.0)
    f.set("--moe-expert-capacity-factor", "workload.routing.capacity", fmt::format("{}", *capacity));
  f.take("--moe-expert-capacity-factor", "no capacity");
  f.reading().assume("workload.routing.kind", "\"balanced\"", "which experts tokens visit follows from the data");
}

void read_latent(MegatronFlags& f, ModelSpec& m) {
  if (!f.on("--multi-latent-attention")) {
    f.without_effect({"--q-lora-rank", "--kv-lora-rank", "--qk-head-dim", "--qk-pos-emb-head-dim", "--v-head-dim",
                      "--rotary-scaling-factor", "--mscale*"},
                     "attention is not latent");
    return;
  }
  f.take("--multi-latent-attention", "latent attention");
  LatentAttention l;
  const auto width = [&](const char* flag, std::uint64_t usual, const char* says) {
    const std::uint64_t out = f.whole(flag, 1, max_width).value_or(usual);
    f.take(flag, fmt::format("{} = {}", says, out));
    return out;
  };
  l.query_rank = width("--q-lora-rank", 0, "the width of latent queries");
  l.kv_rank = width("--kv-lora-rank", 32, "the width of latent keys");
  m.head_dim = width("--qk-head-dim", 128, "the width of a key");
  l.rope_dim = width("--qk-pos-emb-head-dim", 64, "features that rotate");
  l.value_dim = width("--v-head-dim", 128, "the width of a value");
  m.rotary_dim = 0;
  m.latent = l;
  const auto factor = f.real("--rotary-scaling-factor");
  if (factor && *factor > 1.0 && f.known_text("--rope-type").value_or("yarn") == "yarn") {
    m.rope_scaling = "yarn";
    m.rope_stretch = {};
    m.rope_stretch.factor = *factor;
    m.rope_stretch.original = f.whole("--original-max-position-embeddings", 1).value_or(4096);
    m.rope_stretch.fast = f.real("--beta-fast").value_or(m.rope_stretch.fast);
    m.rope_stretch.slow = f.real("--beta-slow").value_or(m.rope_stretch.slow);
    set_constants(m, {f.real("--mscale").value_or(1.0), f.real("--mscale-all-dim").value_or(0.0)});
  }
  for (const char* flag : {"--rotary-scaling-factor", "--original-max-position-embeddings", "--rope-type",
                           "--beta-fast", "--beta-slow", "--mscale", "--mscale-all-dim"})
    f.take(flag, "rope_scaling");
}

}  // namespace

std::optional<std::vector<bool>> megatron_mixture_layers(const std::string& text, std::uint64_t layers) {
  std::string plain;
  for (const char c : text) {
    if (c != ' ' && c != '(' && c != ')' && c != '"' && c != '\'') plain += c;
  }
  if (plain.find('[') == std::string::npos) {
    std::uint64_t every = 0;
    for (const char c : plain) {
      if (c < '0' || c > '9' || every > max_layers) return std::nullopt;
      every = every * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (every == 0) return std::nullopt;
    std::vector<bool> out(layers);
    for (std::uint64_t l = 0; l < layers; ++l) out[l] = l % every == 0;
    return out;
  }
  auto out = joined_lists(plain, max_layers);
  if (out && out->size() != layers) return std::nullopt;
  return out;
}

bool read_megatron_experts(MegatronFlags& f, ModelSpec& m) {
  read_latent(f, m);
  const auto experts = f.whole("--num-experts", 0, max_width);
  if (!experts || *experts == 0) {
    f.without_effect({"--num-experts", "--moe-*"}, "the model has no experts");
    return true;
  }
  f.take("--num-experts", "experts");
  Mixture x;
  x.experts = static_cast<std::uint32_t>(*experts);
  x.ffn = f.whole("--moe-ffn-hidden-size", 1, max_width).value_or(m.ffn);
  f.take("--moe-ffn-hidden-size", "the width of an expert");
  x.shared_ffn = f.whole("--moe-shared-expert-intermediate-size", 0, max_width).value_or(0);
  f.take("--moe-shared-expert-intermediate-size", "the width of shared experts");
  if (const auto text = f.text("--moe-layer-freq")) {
    const auto layers = megatron_mixture_layers(*text, m.layers);
    if (!layers) {
      f.error("--moe-layer-freq", "--moe-layer-freq names no layers of the model",
              {fmt::format("It is {}; the model has {} layers.", text->substr(0, 60), m.layers)});
      return false;
    }
    place(x, *layers);
    f.take("--moe-layer-freq", "layers with experts");
  }
  x.expert_bias = m.biases.ffn;
  read_router(f, x);
  m.mixture = x;
  read_routing(f);
  return true;
}

}  // namespace orrery
