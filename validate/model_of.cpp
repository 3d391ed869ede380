#include "validate/model_of.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace orrery {
namespace {

struct Alias {
  std::string_view begins;  ///< the model cell, without regard to case
  std::string_view model;   ///< shipped
};
constexpr std::array<Alias, 6> aliases = {{{"deepseekv3", "deepseek-v3"},
                                           {"deepseekv2", "deepseek-v2"},
                                           {"qwen3_30b_a3b", "qwen3-30b-a3b"},
                                           {"qwen3_235b_a22b", "qwen3-235b-a22b"},
                                           {"grok1", "grok-1"},
                                           {"mixtral_8x22b", "mixtral-8x22b"}}};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

/// The shipped model that the cell names; empty: none.
std::string shipped(const std::string& cell, const Library& library) {
  const std::vector<std::string> known = library.models();
  if (std::binary_search(known.begin(), known.end(), cell)) return cell;
  const std::string small = lower_case(cell);
  for (const Alias& a : aliases) {
    if (small.starts_with(a.begins) && std::binary_search(known.begin(), known.end(), a.model))
      return std::string(a.model);
  }
  return {};
}

/// Key and value heads of the shipped dense decoder of this width, feed-forward width and number of heads; else heads.
std::uint64_t usual_kv_heads(const ModelSpec& m, const Library& library) {
  for (const char* name : {"llama-3-8b", "llama-3-70b", "llama-3-405b"}) {
    Diagnostics d;
    const std::optional<ModelSpec> shipped = library.model(name, ".", d);
    if (shipped && shipped->hidden == m.hidden && shipped->ffn == m.ffn && shipped->heads == m.heads) {
      return shipped->kv_heads;
    }
  }
  return m.heads;
}

/// The family that an activation stands for: LLaMA's for gated ones, Nemotron's for the squared, else GPT's.
void set_family(ModelSpec& m, const std::string& activation) {
  const bool gated = activation == "swiglu" || activation == "geglu";
  const bool squared = activation == "squared-relu";
  m.activation = gated ? Activation::swiglu : Activation::gelu;
  m.norm = gated ? Norm::rms_norm : Norm::layer_norm;
  m.positions = gated || squared ? PositionEncoding::rotary : PositionEncoding::learned;
  m.bias = !gated && !squared;
  m.tied_embeddings = !gated && !squared;
}

}  // namespace

NamedModel model_of(const MeasuredRun& run, const Framework& framework, const Library& library) {
  NamedModel out;
  const std::string name = shipped(run.model, library);
  ModelSpec m;
  if (!name.empty()) {
    Diagnostics d;
    std::optional<ModelSpec> found = library.model(name, ".", d);
    if (!found) throw Error("a shipped model cannot be read\n" + render(d));
    m = std::move(*found);
  } else {
    std::string missing;
    const auto need = [&](const char* column, bool there) {
      if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
    };
    need("layers", run.layers.has_value());
    need("hidden", run.hidden.has_value());
    need("heads", run.heads.has_value());
    if (!missing.empty()) {
      out.reason = "not published: " + missing;
      return out;
    }
    if (run.experts) {
      out.reason = fmt::format("no shipped model has the expert shapes of \"{}\"", run.model);
      return out;
    }
    if (run.activation.empty()) out.filled.emplace_back("activation");
    set_family(m, run.activation);
    if (framework.name == "llm-foundry") m.bias = false;  // MPT
  }
  m.name = run.model;
  if (run.layers) m.layers = *run.layers;
  if (run.hidden) m.hidden = *run.hidden;
  if (name.empty()) {
    m.heads = *run.heads;
    if (m.hidden % m.heads != 0) {
      out.reason =
          fmt::format("hidden {} is no multiple of heads {}, and the head width is not published", m.hidden, m.heads);
      return out;
    }
    m.head_dim = m.hidden / m.heads;
    m.ffn = run.ffn.value_or(4 * m.hidden);
    m.kv_heads = run.kv_heads ? *run.kv_heads : usual_kv_heads(m, library);
    if (!run.kv_heads) out.filled.emplace_back("kv_heads");
    if (!run.ffn) out.filled.emplace_back("ffn");
    m.vocabulary = run.vocab.value_or(framework.vocabulary);
    if (!run.vocab) out.filled.emplace_back("vocab");
  } else {
    if (run.vocab) m.vocabulary = *run.vocab;
    if (m.mixture && run.experts) m.mixture->experts = static_cast<std::uint32_t>(*run.experts);
    if (m.mixture && run.topk) m.mixture->per_token = static_cast<std::uint32_t>(*run.topk);
    // Cut short for a few devices, a model may begin with fewer dense layers than the whole one.
    if (m.mixture && run.notes.find("first layer dense") != std::string::npos) m.mixture->first_dense = 1;
  }
  m.prediction_modules = 0;  // tables do not say that they were trained
  m.max_positions = std::max<std::uint64_t>(m.max_positions, run.seq.value_or(1));
  m.source = run.citation;
  out.model = std::move(m);
  return out;
}

}  // namespace orrery
