#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/model_spec.hpp"
#include "sim/bound/block_costs.hpp"

namespace orrery {

/// Which layers are dense and which are mixtures, of a model that has both.
class LayerKinds {
 public:
  explicit LayerKinds(const ModelSpec&);
  /// How many of `count` layers from `low` on are dense.
  [[nodiscard]] std::uint32_t dense_among(std::uint32_t low, std::uint32_t count) const {
    return below_[low + count] - below_[low];
  }
  /// The lowest layer from which on `count` layers are, one by one, of the same kinds as from `low` on.
  [[nodiscard]] std::uint32_t lowest_like(std::uint32_t low, std::uint32_t count) const;

 private:
  [[nodiscard]] bool alike(std::uint32_t a, std::uint32_t b, std::uint32_t count) const;
  std::vector<std::uint32_t> below_;  ///< dense layers below each layer; the last: of all
};

/// What one pipeline stage holds of the model.
struct StageShare {
  PerCase<std::uint32_t> layers{};
  std::uint32_t recomputed = 0;  ///< so many from its lowest on, where the plan counts them
  /// Of a model with two kinds of layers: its own lowest layer, or the lowest from which on the same kinds follow each
  /// other, so that shares are equal where stages hold the same.
  std::uint32_t low_layer = 0;
  const LayerKinds* kinds = nullptr;  ///< null: all layers are of one kind
  bool first = false;                 ///< with the embedding
  bool last = false;                  ///< with the head, and the prediction modules
  bool from_here = false;             ///< the stage before lies on the same rank: no message brings its output
  bool to_here = false;               ///< so does the stage behind
  [[nodiscard]] std::uint32_t count() const { return layers[0] + layers[1] + layers[2] + layers[3]; }
  [[nodiscard]] std::uint32_t dense() const { return layers[0] + layers[1]; }
  /// Of one of its layers, counted from its lowest.
  [[nodiscard]] bool is_dense(std::uint32_t layer) const {
    return kinds != nullptr && kinds->dense_among(low_layer + layer, 1) > 0;
  }
  [[nodiscard]] std::size_t at(std::uint32_t layer) const {
    const bool again = layer < recomputed;
    return is_dense(layer) ? index(again ? LayerCase::recomputed_dense : LayerCase::dense)
                           : index(again ? LayerCase::recomputed : LayerCase::plain);
  }
  [[nodiscard]] std::size_t lowest() const { return at(0); }
  [[nodiscard]] std::size_t highest() const { return at(count() - 1); }
  /// How many of its layers begin .. end - 1 are of each case.
  [[nodiscard]] PerCase<std::uint32_t> between(std::uint32_t begin, std::uint32_t end) const;
  friend bool operator==(const StageShare&, const StageShare&) = default;
};

/// What each virtual stage holds; `kinds`, which the shares refer to, of a model that has two.
void shares_of(std::vector<StageShare>& out, const Plan&, const StageMap&, const LayerKinds* kinds);
/// As if so many layers of the stage were recomputed.
void set_recomputed(StageShare&, std::uint32_t recomputed);

/// Of one pass over layers: the sum of `of(case)`.
template <class Of>
[[nodiscard]] Picoseconds over_cases(const PerCase<std::uint32_t>& layers, Of&& of) {
  Picoseconds sum = 0;
  for (std::size_t c = 0; c < layers.size(); ++c) {
    if (layers[c] > 0) sum += static_cast<Picoseconds>(layers[c]) * of(c);
  }
  return sum;
}
/// Of those of a stage.
template <class Of>
[[nodiscard]] Picoseconds over_layers(const StageShare& share, Of&& of) {
  return over_cases(share.layers, of);
}

/// Calls visit(case, layers, is the last run) for runs of neighbouring layers of one case, from the lowest up or from
/// the highest down.
template <class Visit>
void for_each_run(const StageShare& share, bool up, Visit&& visit) {
  const std::uint32_t count = share.count();
  for (std::uint32_t done = 0; done < count;) {
    const std::size_t here = share.at(up ? done : count - 1 - done);
    std::uint32_t run = 1;
    if (share.kinds == nullptr) {
      // Recomputed ones below the others.
      const std::uint32_t edge = up ? share.recomputed : count - share.recomputed;
      run = (done < edge ? edge : count) - done;
    } else {
      while (done + run < count && share.at(up ? done + run : count - 1 - done - run) == here) ++run;
    }
    done += run;
    visit(here, run, done == count);
  }
}

}  // namespace orrery
