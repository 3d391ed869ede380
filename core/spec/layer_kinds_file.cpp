#include "core/spec/layer_kinds_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

using Names = std::vector<std::string_view>;

const Names& branch_norm_names() {
  static const Names names{"before", "after", "both"};
  return names;
}
const Names& parallel_names() {
  static const Names names{"none", "one_norm", "two_norms"};
  return names;
}
const Names& query_key_norm_names() {
  static const Names names{"none", "head", "whole", "unweighted"};
  return names;
}
const Names& span_names() {
  static const Names names{"window", "chunk"};
  return names;
}

constexpr double max_scale = 1e6;

struct BiasName {
  std::string_view name;
  bool Biases::*member;
};
constexpr std::array bias_names{
    BiasName{"qkv", &Biases::qkv},
    BiasName{"out", &Biases::out},
    BiasName{"ffn", &Biases::ffn},
    BiasName{"head", &Biases::head},
};

void read_biases(TomlTable& t, Biases& biases) {
  std::vector<std::string> names;
  if (!t.read("biases", names, bias_names.size())) return;
  biases = {};
  for (const std::string& name : names) {
    const auto* at =
        std::find_if(bias_names.begin(), bias_names.end(), [&](const BiasName& b) { return b.name == name; });
    if (at == bias_names.end()) {
      t.error("biases", "file.choice", fmt::format("\"{}\" is not a set of matrices", name),
              {"Known: qkv, out, ffn, head."});
      return;
    }
    biases.*at->member = true;
  }
}

void read_pattern(TomlTable& t, const std::string& every, const std::string& layers, LayerPattern& p) {
  t.read(every, p.every, {1, max_layers}, Need::optional);
  t.read(layers, p.layers, {0, static_cast<std::uint32_t>(max_layers) - 1}, max_layers, Need::optional);
}
void write_pattern(TomlWriter& w, std::string_view every, std::string_view layers, const LayerPattern& p) {
  if (p.every > 0) w.whole(every, p.every);
  if (!p.layers.empty()) w.wholes(layers, p.layers);
}

}  // namespace

void read_layer_kinds(TomlTable& t, ModelSpec& m) {
  if (t.has("biases")) read_biases(t, m.biases);
  t.read("norm_weight", m.norm_weight, Need::optional);
  t.read("norm_bias", m.norm_bias, Need::optional);
  t.read("embedding_norm", m.embedding_norm, Need::optional);
  t.read("feature_scale", m.layer_scale, Need::optional);
  t.read_enum("branch_norms", branch_norm_names(), m.branch_norms, Need::optional);
  t.read_enum("parallel", parallel_names(), m.parallel, Need::optional);
  t.read_enum("query_key_norm", query_key_norm_names(), m.query_key_norm, Need::optional);
  t.read("sinks", m.sinks, Need::optional);
  t.read("attention_scale", m.attention_scale, {0.0, max_scale, true}, Need::optional);
  t.read("attention_softcap", m.attention_softcap, {0.0, max_scale, true}, Need::optional);
  t.read("qkv_clip", m.qkv_clip, {0.0, max_scale, true}, Need::optional);
  t.read("gate_limit", m.gate_limit, {0.0, max_scale, true}, Need::optional);
  t.read("logit_softcap", m.logit_softcap, {0.0, max_scale, true}, Need::optional);
  t.read("embedding_scale", m.embedding_scale, {0.0, max_scale, true}, Need::optional);
  t.read("residual_scale", m.residual_scale, {0.0, max_scale, true}, Need::optional);
  t.read("logit_scale", m.logit_scale, {0.0, max_scale, true}, Need::optional);
  t.read("rotary_dim", m.rotary_dim, {2, max_width}, Need::optional);
  t.read("position_offset", m.position_offset, {1, max_sequence}, Need::optional);
  read_pattern(t, "unrotated_every", "unrotated_layers", m.unrotated);
  if (std::optional<TomlTable> local = t.table("local", Need::optional)) {
    LocalAttention& l = m.local.emplace();
    local->read_enum("span", span_names(), l.span, Need::optional);
    local->read("size", l.size, {1, max_sequence});
    read_pattern(*local, "global_every", "global_layers", l.global);
    local->read("rope_theta", l.rope_theta, {1.0, 1e12}, Need::optional);
    local->finish();
  }
}

void write_layer_kinds(TomlWriter& w, const ModelSpec& m) {
  const ModelSpec usual;
  if (m.biases == Biases::of_layers(m.biases.qkv)) {
    w.flag("bias", m.biases.qkv);
  } else {
    std::vector<std::string> names;
    for (const BiasName& b : bias_names) {
      if (m.biases.*b.member) names.emplace_back(b.name);
    }
    w.texts("biases", names);
  }
  const auto number = [&](std::string_view key, double value, double left_out) {
    if (value != left_out) w.number(key, value);
  };
  if (!m.norm_weight) w.flag("norm_weight", false);
  if (m.norm == Norm::layer_norm && !m.norm_bias) w.flag("norm_bias", false);
  if (m.embedding_norm) w.flag("embedding_norm", true);
  if (m.layer_scale) w.flag("feature_scale", true);
  if (m.branch_norms != usual.branch_norms)
    w.text("branch_norms", branch_norm_names()[static_cast<std::size_t>(m.branch_norms)]);
  if (m.parallel != usual.parallel) w.text("parallel", parallel_names()[static_cast<std::size_t>(m.parallel)]);
  if (m.query_key_norm != usual.query_key_norm)
    w.text("query_key_norm", query_key_norm_names()[static_cast<std::size_t>(m.query_key_norm)]);
  if (m.sinks) w.flag("sinks", true);
  number("attention_scale", m.attention_scale, usual.attention_scale);
  number("attention_softcap", m.attention_softcap, usual.attention_softcap);
  number("qkv_clip", m.qkv_clip, usual.qkv_clip);
  number("gate_limit", m.gate_limit, usual.gate_limit);
  number("logit_softcap", m.logit_softcap, usual.logit_softcap);
  number("embedding_scale", m.embedding_scale, usual.embedding_scale);
  number("residual_scale", m.residual_scale, usual.residual_scale);
  number("logit_scale", m.logit_scale, usual.logit_scale);
  if (m.rotary_dim > 0) w.whole("rotary_dim", m.rotary_dim);
  if (m.position_offset > 0) w.whole("position_offset", m.position_offset);
  write_pattern(w, "unrotated_every", "unrotated_layers", m.unrotated);
}

void write_local_attention(TomlWriter& w, const ModelSpec& m) {
  if (!m.local) return;
  w.table("model.local").text("span", span_names()[static_cast<std::size_t>(m.local->span)]);
  w.whole("size", m.local->size);
  write_pattern(w, "global_every", "global_layers", m.local->global);
  if (m.local->rope_theta > 0.0) w.number("rope_theta", m.local->rope_theta);
}

bool check_layer_kinds(const ModelSpec& m, Diagnostics& diagnostics) {
  bool good = true;
  const auto rule = [&](bool holds, const char* key, const char* code, std::string message, std::string detail) {
    if (holds) return;
    diagnostics.error(m.origin, std::string("model.") + key, code, std::move(message), {std::move(detail)});
    good = false;
  };
  const auto number = [&](const char* key, double value, double least) {
    rule(value >= least && value <= max_scale, key, "model.range", fmt::format("{} is out of range", key),
         fmt::format("It is {}; from {} to {} is allowed.", value, least, max_scale));
  };
  const auto pattern = [&](const char* key, const LayerPattern& p) {
    for (std::size_t i = 0; i < p.layers.size(); ++i) {
      const bool named = p.layers[i] < m.layers && (i == 0 || p.layers[i - 1] < p.layers[i]);
      rule(named, key, "model.layer-kinds", fmt::format("{} must name layers of the model in ascending order", key),
           fmt::format("It has {} at place {}; the model's layers are 0 to {}.", p.layers[i], i + 1, m.layers - 1));
      if (!named) return;
    }
  };
  constexpr const char* kinds = "model.layer-kinds";
  constexpr double tiny = 1e-9;
  number("attention_scale", m.attention_scale, 0.0);
  number("attention_softcap", m.attention_softcap, 0.0);
  number("qkv_clip", m.qkv_clip, 0.0);
  number("gate_limit", m.gate_limit, 0.0);
  number("logit_softcap", m.logit_softcap, 0.0);
  number("embedding_scale", m.embedding_scale, tiny);
  number("residual_scale", m.residual_scale, tiny);
  number("logit_scale", m.logit_scale, tiny);
  const bool decoder = m.architecture == Architecture::decoder, vit = m.architecture == Architecture::vit;
  rule(m.norm_bias || m.norm == Norm::layer_norm, "norm_bias", kinds, "an rms_norm has no bias to leave out",
       "Leave norm_bias out, or set norm to layer_norm.");
  rule(!m.layer_scale || vit, "feature_scale", kinds, "only vision transformers scale their branches by features",
       "Leave feature_scale out.");
  rule(decoder || (m.norm_bias && (vit || !m.embedding_norm) && !m.biases.head), "architecture", kinds,
       "an encoder's norms and head are fixed", "Leave norm_bias, embedding_norm and the head's bias out.");
  rule(m.norm_weight || decoder, "norm_weight", kinds, "an encoder's norms have weights", "Leave norm_weight out.");
  rule(m.gate_limit == 0.0 || is_gated(m.activation), "gate_limit", kinds,
       "only gated feed-forward layers have a limit", "Leave gate_limit out.");
  rule(m.parallel == ParallelBranches::none || m.branch_norms == BranchNorms::before, "parallel", kinds,
       "branches side by side have their norms before them", "Leave branch_norms out.");
  rule(decoder || (m.parallel == ParallelBranches::none && m.branch_norms == BranchNorms::before), "parallel", kinds,
       "an encoder's branches follow each other", "Leave parallel and branch_norms out.");
  rule(m.query_key_norm == QueryKeyNorm::none || !m.latent, "query_key_norm", kinds,
       "latent attention has norms of its own", "Leave query_key_norm out.");
  rule(!m.sinks || (decoder && !m.latent), "sinks", kinds, "only plain attention of decoders has sinks",
       "Leave sinks out.");
  rule(m.attention_softcap == 0.0 || decoder, "attention_softcap", kinds, "an encoder's scores are not capped",
       "Leave attention_softcap out.");
  rule(m.rotary_dim == 0 || (m.positions == PositionEncoding::rotary && !m.latent), "rotary_dim", "model.positions",
       "rotary_dim needs rotary positions", "Leave it out; latent attention has rope_dim in its place.");
  rule(m.rotary_dim % 2 == 0 && m.rotary_dim <= m.head_dim, "rotary_dim", "model.positions",
       "rotary_dim must be even, and at most head_dim",
       fmt::format("It is {}; head_dim is {}.", m.rotary_dim, m.head_dim));
  rule(m.unrotated.empty() || (m.positions == PositionEncoding::rotary && !m.latent), "unrotated_every",
       "model.positions", "layers that do not rotate need others that do",
       "Leave unrotated_every and unrotated_layers out, or set positions to rotary.");
  rule(m.position_offset == 0 || m.positions == PositionEncoding::learned, "position_offset", "model.positions",
       "position_offset needs learned positions", "Leave it out, or set positions to learned.");
  rule(m.position_offset <= max_sequence, "position_offset", "model.range", "position_offset is out of range",
       fmt::format("It is {}; at most {} is allowed.", m.position_offset, max_sequence));
  pattern("unrotated_layers", m.unrotated);
  if (m.local) {
    rule(decoder && !m.latent, "local", kinds, "only plain attention of decoders is local", "Leave [model.local] out.");
    rule(m.local->size >= 1 && m.local->size <= max_sequence, "local.size", "model.range", "size is out of range",
         fmt::format("It is {}; from 1 to {} is allowed.", m.local->size, max_sequence));
    pattern("local.global_layers", m.local->global);
  }
  return good;
}

}  // namespace orrery
