#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery {

/// A lowered and estimated plan of several stages, asked how long its step would be with a layer more here and a layer
/// less there. The layers' slots repeat more or less often, and the step is walked again; nothing is lowered. What is
/// done once a step for many layers at a time (sums of gradients, gathered weights) keeps its size.
///
/// It answers only where the layers of a stage are all alike: `knows` is false for others.
class LongerStages {
 public:
  /// `program` has stages of `split` layers, in the order of the model's layers.
  void read(const Program& program, const std::vector<std::uint32_t>& split);

  [[nodiscard]] bool knows(const std::vector<std::uint32_t>& split) const;
  /// The step of the program with these stages, rather too short than too long. A shorter stage also saves a part of
  /// its sums, gathers and updates, which the walk does not see: twice its share of them is taken off. No proof says
  /// that this is always enough; a test compares with splits that are lowered (tests/unit/planner/resolve_test.cpp).
  /// `estimator` estimated the program last, which is as before afterwards. Requires knows(split).
  [[nodiscard]] Picoseconds least_step(Program& program, Estimator& estimator,
                                       const std::vector<std::uint32_t>& split) const;

  /// The least share of its memory that a class of ranks keeps with these stages. A class that loses a tenth of its
  /// layers keeps at least nine tenths, since embeddings, logits and the like stay; one that gains layers keeps all.
  [[nodiscard]] double least_share(const std::vector<std::uint32_t>& split, std::uint32_t rank_class) const;

 private:
  /// A slot whose number of layers follows from the stage's.
  struct Lever {
    std::uint32_t rank_class = 0, slot = 0, stage = 0;
    std::uint32_t repeat = 1;
  };
  /// A slot at the layers of a stage, or a part of them.
  struct Piece {
    std::uint32_t microbatch = 0, block = 0, stage = 0, slot = 0, repeat = 0;
    [[nodiscard]] bool same_run(const Piece& other) const {
      return microbatch == other.microbatch && block == other.block && stage == other.stage;
    }
    friend auto operator<=>(const Piece&, const Piece&) = default;
  };
  std::vector<Piece> pieces_;  // working storage
  std::vector<std::uint32_t> split_;
  std::vector<Lever> levers_;
  std::vector<std::uint32_t> most_less_;            ///< by stage: layers that its shortest lever can lose
  std::vector<std::vector<std::uint32_t>> stages_;  ///< of each class of ranks
  bool alike_ = false;
};

}  // namespace orrery
