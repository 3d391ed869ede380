#pragma once

#include <functional>

#include "core/spec/hf/config.hpp"

/// What readers of decoders share. Each reads the usual keys and then says what its type has besides.
namespace orrery::hf {

/// Whether feed-forward layers have a gate beside the product that it scales.
enum class Gate : std::uint8_t { with, without };

/// Reads the usual keys (usual_keys): sizes, norm, activation, rotary angles where the tables have them, biases.
/// attention_bias gives biases to all products of attention.
[[nodiscard]] ModelSpec decoder(Config&, Gate = Gate::with);
/// The activation that `key` names. Some names of gelu mean the exact form, some the tanh form, which differs by less
/// than 0.001 and costs the same.
[[nodiscard]] Activation activation(Config&, const char* key, Gate);

/// Reads which layers see a window of positions: from layer_types where the tables have that key and the file has it,
/// else those that `is_local` chooses. The width is in `width`; null: no layer does.
void read_windows(Config&, ModelSpec&, const std::function<bool(std::uint64_t layer)>& is_local,
                  const char* width = "sliding_window");
/// Every layer, or all but one in so many.
[[nodiscard]] std::function<bool(std::uint64_t)> every_layer();
[[nodiscard]] std::function<bool(std::uint64_t)> all_but_one_in(std::uint64_t several);
/// Layers from max_window_layers on see a window.
void read_later_windows(Config&, ModelSpec&);
/// Reads which layers do not rotate: those that have 0 in no_rope_layers, else one in so many.
void read_unrotated(Config&, ModelSpec&);

/// Reads a mixture: the numbers of experts, and of those that a token visits, stand in these keys. Its experts are as
/// wide as `width` says.
[[nodiscard]] Mixture mixture(Config&, const char* experts, const char* per_token, const char* width);
/// Notes which layers are no mixtures.
void leave_dense(ModelSpec&, const std::function<bool(std::uint64_t layer)>& is_dense);

/// Layers that mlp_only_layers names, and those between steps, are dense.
void leave_dense_by_step(Config&, ModelSpec&);
/// Reads a mixture that routes as DeepSeek-V3's: by sigmoids with biases of choice, in groups, beside shared experts,
/// and from some layer on. Empty where all layers are dense.
[[nodiscard]] std::optional<Mixture> sigmoid_mixture(Config&, const ModelSpec&);

/// Says that the model is only counted: it has `more` parameters than the spec, of layers that Programs do not have.
void only_counted(ModelSpec&, std::uint64_t more, std::string because);

}  // namespace orrery::hf
