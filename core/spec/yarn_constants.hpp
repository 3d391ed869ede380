#pragma once

#include "core/spec/model_spec.hpp"

namespace orrery {

/// DeepSeek's two constants of a yarn stretch, with m(x) = 0.1 x ln(factor) + 1: rotated vectors are m(one) / m(all)
/// times as long, and scores of latent attention have the scale m(all)^2 / sqrt(width of a key).
struct YarnConstants {
  double one = 1.0, all = 0.0;
};
/// Sets `length` and `attention_scale` by them.
void set_constants(ModelSpec&, YarnConstants);
/// The constants of a model of latent attention that is stretched by yarn, to nine digits behind the point.
[[nodiscard]] YarnConstants constants_of(const ModelSpec&);

}  // namespace orrery
