#include "core/spec/yarn_constants.hpp"

#include <cmath>

#include "core/spec/rope_scaling.hpp"

namespace orrery {
namespace {

/// Peng et al., "YaRN", ICLR 2024, section 3.4, with constant 1.
double yarn_length(double constant, double factor) {
  return factor > 1.0 ? 0.1 * constant * std::log(factor) + 1.0 : 1.0;
}

double root_of_width(const ModelSpec& m) { return std::sqrt(static_cast<double>(key_width(m))); }

}  // namespace

void set_constants(ModelSpec& m, YarnConstants c) {
  const double all = yarn_length(c.all, m.rope_stretch.factor);
  m.rope_stretch.length = yarn_length(c.one, m.rope_stretch.factor) / all;
  m.attention_scale = all == 1.0 ? 0.0 : all * all / root_of_width(m);
}

YarnConstants constants_of(const ModelSpec& m) {
  const double each = yarn_length(1.0, m.rope_stretch.factor) - 1.0;  // 0.1 ln(factor)
  if (each == 0.0) return {};
  const double all = m.attention_scale > 0.0 ? std::sqrt(m.attention_scale * root_of_width(m)) : 1.0;
  const auto digits = [](double x) { return std::round(x * 1e9) / 1e9; };  // as they were written
  return {digits((rotary_angles(m, 0, 1).length * all - 1.0) / each), digits((all - 1.0) / each)};
}

}  // namespace orrery
