#include "validate/model_of.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "validate/shipped_model.hpp"

namespace orrery {
namespace {

/// Whether the columns of a table cannot state the model's shape.
bool is_special(const ModelSpec& m) { return m.mixture || m.latent || m.heads * m.head_dim != m.hidden; }

/// Key and value heads of the shipped dense decoder with this width, feed-forward width and number of heads; otherwise
/// the number of heads.
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

/// Sets the family that an activation stands for: LLaMA's for gated ones, Nemotron's for the squared one, GPT's for
/// gelu and where none is stated. Returns false for any other.
bool set_family(ModelSpec& m, const std::string& activation) {
  const bool gated = activation == "swiglu" || activation == "geglu";
  const bool squared = activation == "squared-relu";
  m.activation = gated ? Activation::swiglu : Activation::gelu;
  m.norm = gated ? Norm::rms_norm : Norm::layer_norm;
  m.positions = gated || squared ? PositionEncoding::rotary : PositionEncoding::learned;
  m.biases = Biases::of_layers(!gated && !squared);
  m.tied_embeddings = !gated && !squared;
  return gated || squared || activation.empty() || activation == "gelu";
}

std::string head_width_unknown(const ModelSpec& m) {
  return fmt::format("hidden {} is not a multiple of heads {}, and the head width is not published", m.hidden, m.heads);
}

std::string no_expert_shapes(const MeasuredRun& run) {
  return fmt::format("no shipped model has the expert shapes of \"{}\"", run.model);
}

/// A shipped model with the sizes that the row states, which must be the model's own where the columns cannot state its
/// shape.
NamedModel shipped_in_sizes(ModelSpec m, const MeasuredRun& run) {
  NamedModel out;
  if (is_special(m)) {
    const auto other = [&](const char* column, const std::optional<std::uint64_t>& stated, std::uint64_t shipped) {
      if (!stated || *stated == shipped) return false;
      out.reason = fmt::format("{} is {}, and \"{}\" has {}", column, *stated, run.model, shipped);
      return true;
    };
    if (other("hidden", run.hidden, m.hidden) || other("heads", run.heads, m.heads) ||
        (!m.latent && other("kv_heads", run.kv_heads, m.kv_heads))) {
      return out;
    }
    if (m.mixture && run.experts) m.mixture->experts = static_cast<std::uint32_t>(*run.experts);
    if (m.mixture && run.topk) m.mixture->per_token = static_cast<std::uint32_t>(*run.topk);
    // A model that is cut short for a few devices may begin with fewer dense layers than the whole one.
    if (m.mixture && run.notes.find("first layer dense") != std::string::npos) m.mixture->first_dense = 1;
  } else if (run.experts) {
    out.reason = no_expert_shapes(run);
    return out;
  } else {
    m.hidden = run.hidden.value_or(m.hidden);
    m.heads = run.heads.value_or(m.heads);
    m.kv_heads = run.kv_heads.value_or(m.kv_heads);
    m.ffn = run.ffn.value_or(m.ffn);
    if (m.hidden % m.heads != 0) return {{}, head_width_unknown(m), {}};
    m.head_dim = m.hidden / m.heads;
  }
  m.layers = run.layers.value_or(m.layers);
  m.vocabulary = run.vocab.value_or(m.vocabulary);
  out.model = std::move(m);
  return out;
}

/// A decoder with the sizes of the row, whose family follows from the activation.
NamedModel decoder_of(const MeasuredRun& run, const ProgramHabits& framework, const Library& library) {
  NamedModel out;
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
    out.reason = no_expert_shapes(run);
    return out;
  }
  ModelSpec m;
  if (run.activation.empty()) out.filled.emplace_back("activation");
  if (!set_family(m, run.activation)) {
    out.reason = fmt::format("the activation \"{}\" is not modelled", run.activation);
    return out;
  }
  if (framework.name == "llm-foundry") m.biases = {};  // MPT
  m.layers = *run.layers;
  m.hidden = *run.hidden;
  m.heads = *run.heads;
  if (m.hidden % m.heads != 0) return {{}, head_width_unknown(m), {}};
  m.head_dim = m.hidden / m.heads;
  m.ffn = run.ffn.value_or(4 * m.hidden);
  m.kv_heads = run.kv_heads ? *run.kv_heads : usual_kv_heads(m, library);
  if (!run.kv_heads) out.filled.emplace_back("kv_heads");
  if (!run.ffn) out.filled.emplace_back("ffn");
  m.vocabulary = run.vocab.value_or(framework.vocabulary);
  if (!run.vocab) out.filled.emplace_back("vocab");
  out.model = std::move(m);
  return out;
}

}  // namespace

NamedModel model_of(const MeasuredRun& run, const ProgramHabits& framework, const Library& library) {
  std::optional<ModelSpec> shipped;
  if (const std::string name = shipped_model_named(run.model, library.models()); !name.empty()) {
    Diagnostics d;
    shipped = library.model(name, ".", d);
    if (!shipped) throw Error("a shipped model cannot be read\n" + render(d));
    // The row's own cells say what they can.
    const bool stated = run.layers && run.hidden && run.heads;
    if (name != run.model && stated && !is_special(*shipped)) shipped.reset();
  }
  NamedModel out = shipped ? shipped_in_sizes(std::move(*shipped), run) : decoder_of(run, framework, library);
  if (!out.model) return out;
  out.model->name = run.model;
  out.model->prediction_modules = 0;  // tables do not say that they were trained
  out.model->max_positions = std::max<std::uint64_t>(out.model->max_positions, run.seq.value_or(1));
  out.model->source = run.citation;
  return out;
}

}  // namespace orrery
