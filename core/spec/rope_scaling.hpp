#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

struct ModelSpec;

/// The numbers of ModelSpec::rope_scaling.  What a kind does not use keeps its start.
struct RopeStretch {
  double factor = 0.0;         ///< how many times longer sequences are; 0: the numbers are not known
  std::uint64_t original = 0;  ///< positions that the angles were first trained for; 0: max_positions
  double slow = 1.0;        ///< yarn, llama3: turns over `original` positions, below which a pair is stretched in full
  double fast = 32.0;       ///< and above which it is not stretched (llama3: 4)
  bool whole_pairs = true;  ///< yarn: the bounds between are whole numbers of pairs
  double length = 0.0;      ///< yarn, longrope: of rotated vectors; 0: by their formulas
  std::vector<double> short_factors = {},
                      long_factors = {};  ///< longrope: of each pair, up to `original` positions and beyond
  friend bool operator==(const RopeStretch&, const RopeStretch&) = default;
};

/// Angles of rotary positions: pair i of features turns by position * frequencies[i], and the rotated vectors of
/// queries and of keys are `length` times as long.
struct RotaryAngles {
  double length = 1.0;
  std::vector<double> frequencies;
};

/// Angles of a layer for sequences of so many positions.  docs/formulas/layers.md has the formulas and their sources.
[[nodiscard]] RotaryAngles rotary_angles(const ModelSpec&, std::uint64_t layer, std::uint64_t positions);
/// Whether theta and the width give a layer's angles.
[[nodiscard]] bool stretches(const ModelSpec&, std::uint64_t layer);
/// Features of a head that rotate.
[[nodiscard]] std::uint64_t rotating_features(const ModelSpec&);

}  // namespace orrery
