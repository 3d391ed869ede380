#include "core/spec/rope_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/spec/model_spec.hpp"

namespace orrery {
namespace {

double real(std::uint64_t n) { return static_cast<double>(n); }

double theta_of(const ModelSpec& m, std::uint64_t layer) {
  const bool own = is_local(m, layer) && m.local->rope_theta > 0.0;
  return own ? m.local->rope_theta : m.rope_theta;
}

std::uint64_t original(const ModelSpec& m) {
  return m.rope_stretch.original > 0 ? m.rope_stretch.original : m.max_positions;
}

std::vector<double> plain(double theta, std::uint64_t features) {
  std::vector<double> f;
  for (std::uint64_t i = 0; i < features / 2; ++i) f.push_back(std::pow(theta, -2.0 * real(i) / real(features)));
  return f;
}

/// Pairs that turn fast keep their angles, those that turn slowly are stretched, and those between are mixed by their
/// wavelength. Where the bounds are equal (Llama-4), none lie between (Dubey et al., "The Llama 3 Herd of Models",
/// 2024; the constants as in the released code).
void llama3(const ModelSpec& m, std::vector<double>& frequencies) {
  const RopeStretch& s = m.rope_stretch;
  for (double& f : frequencies) {
    const double turns = real(original(m)) * f / (2.0 * std::numbers::pi);
    const double kept =
        s.slow == s.fast ? (turns < s.slow ? 0.0 : 1.0) : std::clamp((turns - s.slow) / (s.fast - s.slow), 0.0, 1.0);
    f = (1.0 - kept) * f / s.factor + kept * f;
  }
}

/// The same, mixed by the pair's number between those that make `fast` and `slow` turns (Peng et al., "YaRN", 2024,
/// sections 3.2 and 3.4).
void yarn(const ModelSpec& m, double theta, std::uint64_t features, std::vector<double>& frequencies) {
  const RopeStretch& s = m.rope_stretch;
  const auto pair_with = [&](double turns) {
    return real(features) * std::log(real(original(m)) / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  double low = pair_with(s.fast), high = pair_with(s.slow);
  if (s.whole_pairs) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, real(features) - 1.0);
  if (low == high) high += 0.001;  // no division by 0
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((real(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / s.factor + (1.0 - stretched);
  }
}

}  // namespace

std::uint64_t rotating_features(const ModelSpec& m) {
  if (m.latent) return m.latent->rope_dim;
  return m.rotary_dim > 0 ? m.rotary_dim : m.head_dim;
}

bool stretches(const ModelSpec& m, std::uint64_t layer) {
  const bool own = is_local(m, layer) && m.local->rope_theta > 0.0;
  return !m.rope_scaling.empty() && m.rope_stretch.factor > 0.0 && !own;
}

RotaryAngles rotary_angles(const ModelSpec& m, std::uint64_t layer, std::uint64_t positions) {
  const RopeStretch& s = m.rope_stretch;
  const std::uint64_t features = rotating_features(m);
  const double theta = theta_of(m, layer);
  RotaryAngles angles{1.0, plain(theta, features)};
  if (!stretches(m, layer)) return angles;
  if (m.rope_scaling == "linear") {
    for (double& f : angles.frequencies) f /= s.factor;
  } else if (m.rope_scaling == "dynamic") {
    // The base grows with the sequence beyond the trained length ("NTK-aware" scaling; Peng et al. 2024, section 3.1).
    const double longer = real(std::max(positions, original(m))) / real(original(m));
    const double d = real(features);
    if (features > 2) {
      angles.frequencies = plain(theta * std::pow(s.factor * longer - (s.factor - 1.0), d / (d - 2.0)), features);
    }
  } else if (m.rope_scaling == "llama3") {
    llama3(m, angles.frequencies);
  } else if (m.rope_scaling == "yarn") {
    yarn(m, theta, features, angles.frequencies);
    angles.length = s.length > 0.0 ? s.length : s.factor > 1.0 ? 0.1 * std::log(s.factor) + 1.0 : 1.0;
  } else if (m.rope_scaling == "longrope") {
    // Ding et al., "LongRoPE", 2024: a factor for each pair, found by a search; the length as in Phi-3's code.
    const std::vector<double>& by = positions > original(m) ? s.long_factors : s.short_factors;
    for (std::size_t i = 0; i < angles.frequencies.size(); ++i) angles.frequencies[i] /= by[i];
    angles.length = s.length > 0.0    ? s.length
                    : s.factor <= 1.0 ? 1.0
                                      : std::sqrt(1.0 + std::log(s.factor) / std::log(real(original(m))));
  }
  return angles;
}

}  // namespace orrery
