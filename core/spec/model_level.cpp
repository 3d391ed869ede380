#include "core/spec/model_level.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "core/base/units_text.hpp"

namespace orrery {

std::string_view name_of(ModelLevel level) {
  constexpr std::array names{"counted", "priced", "executed"};
  return names[static_cast<std::size_t>(level)];
}

std::vector<std::string> unpriced(const ModelSpec& m) {
  if (m.counted) return {m.counted->because};
  std::vector<std::string> lacks;
  const auto lack = [&](bool has, const char* what) {
    if (has) lacks.emplace_back(what);
  };
  lack(m.parallel != ParallelBranches::none && (m.mixture || m.latent),
       "mixtures or latent attention beside another branch");
  lack(!m.norm_weight && m.tied_embeddings && !m.biases.head, "a head without any parameters of its own");
  lack(m.query_key_norm != QueryKeyNorm::none && m.norm == Norm::layer_norm, "layer norms of queries and keys");
  lack(m.prediction_modules > 0 && (m.embedding_norm || m.embedding_scale != 1.0 || m.biases.head),
       "prediction modules with a normed or scaled embedding, or a bias of the head");
  lack(m.qkv_clip > 0.0 && m.latent, "latent attention that is clipped");
  return lacks;
}

std::vector<std::string> unexecuted(const ModelSpec& m) {
  std::vector<std::string> lacks;
  if (!unpriced(m).empty()) return lacks;
  if (!m.rope_scaling.empty() && m.rope_stretch.factor == 0.0) {
    lacks.push_back("rotary angles stretched by numbers that are not given (" + m.rope_scaling + ")");
  }
  if (m.gate_limit > 0.0 && m.activation != Activation::swiglu) lacks.emplace_back("gates of GELU that are clipped");
  return lacks;
}

bool check_priced(const ModelSpec& m, Diagnostics& diagnostics) {
  const std::vector<std::string> lacks = unpriced(m);
  if (lacks.empty()) return true;
  diagnostics.error(m.origin, "model", "model.counted",
                    fmt::format("{} is counted, but not priced: plans do not have {}", m.name, fmt::join(lacks, ", ")),
                    {fmt::format("It has {} parameters. orrery show model tells what else is known of it.",
                                 with_commas(parameter_count(m)))});
  return false;
}

bool check_executed(const ModelSpec& m, Diagnostics& diagnostics) {
  const std::vector<std::string> lacks = unexecuted(m);
  if (lacks.empty()) return true;
  diagnostics.error(m.origin, "model", "model.priced",
                    fmt::format("{} is priced, but not run: kernels do not have {}", m.name, fmt::join(lacks, ", ")),
                    {"estimate and simulate remain right, since these cost next to nothing."});
  return false;
}

ModelLevel level_of(const ModelSpec& m) {
  return !unpriced(m).empty()     ? ModelLevel::counted
         : !unexecuted(m).empty() ? ModelLevel::priced
                                  : ModelLevel::executed;
}

}  // namespace orrery
