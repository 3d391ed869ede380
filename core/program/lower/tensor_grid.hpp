#pragma once

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// What the algorithms on a grid of rows and columns share: the residual stream
/// is cut by sequences along rows (and depth) and by features along columns.
///
/// Norms sum over the columns what the row of a token needs, forward in two
/// passes (the sum, then squares about the mean, which do not cancel), backward
/// in one.  The word table is cut along the vocabulary by rows: ranks of a
/// column gather the tokens of all rows, look up the words that they have, and
/// reduce-scatter the rows back to their ranks.
class GridSharding : public TensorSharding {
 public:
  void norm_forward(State&, BlockBuilder&, const NormSite&, Operand x, Operand y, Operand stats) const final;
  void norm_backward(State&, BlockBuilder&, const NormSite&, Operand dy, Operand x, Operand stats, Operand dx,
                     std::optional<Operand> residual) const final;
  void embed_forward(State&, BlockBuilder&, BufferId tokens, BufferId x) const final;
  void embed_backward(State&, BlockBuilder&, BufferId tokens, BufferId dx) const final;

 protected:
  /// The part of the word table with all columns' words of this row; the table itself unless depth cuts it too.
  virtual Operand word_table(State&, BlockBuilder&) const;
  /// Adds the table's gradient made by `kernel` from tokens and dx to the module's.
  virtual void add_to_word_gradient(State&, BlockBuilder&, const Kernel& kernel, Operand tokens, Operand dx) const;
};

/// Rows with all features, in the layout of 1D, for products that are not cut as the grid's are. The ranks of a row
/// have the same rows and different features. `blocks` holds them as messages carry them: [ranks][rows][features of
/// one].
struct AllFeatures {
  BufferId rows{}, blocks{};
};
[[nodiscard]] AllFeatures declare_all_features(State&, const std::string& name, Scope);
/// Gathers from the stream's layout, on every rank of the row.
void gather_features(const State&, BlockBuilder&, Pass, Operand stream, const AllFeatures&);
/// Goes back to the stream's layout, summed over the row of ranks.
void sum_features(const State&, BlockBuilder&, Pass, const AllFeatures&, BufferId stream);

/// A microbatch of all ranks along row (or, between products, column), one rank's part behind the other.
[[nodiscard]] Shard shard_of_gathered(const State&, ShardDim feature);

}  // namespace orrery::lowering
