#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// The data that a run trains on: a token and a target for every position of every sequence of every step.
///
/// A value depends only on (step, sequence, position), so every rank asks for
/// its own part and all plans of one workload see the same data.  `step` counts
/// from 1 and goes on when the optimizer skips an update; `sequence` counts over
/// the global batch (0 .. global_batch - 1), `position` inside the sequence.
/// Objects are immutable: all ranks may read one at the same time.
class DataSource {
 public:
  DataSource() = default;
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;
  virtual ~DataSource() = default;

  /// The value is in 0 .. vocabulary - 1.
  [[nodiscard]] virtual std::int32_t token(std::uint64_t step, std::uint64_t sequence,
                                           std::uint64_t position) const = 0;
  /// The value is in 0 .. vocabulary - 1, or -1: this position does not count in the loss.
  [[nodiscard]] virtual std::int32_t target(std::uint64_t step, std::uint64_t sequence,
                                            std::uint64_t position) const = 0;
  /// The kind of token at a position, from 0 (BERT).
  [[nodiscard]] virtual std::int32_t segment(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const;
  /// Number `at` of the patch at `position` (from 1: 0 is the class token) of the sequence's image (ViT).
  [[nodiscard]] virtual double pixel(std::uint64_t step, std::uint64_t sequence, std::uint64_t position,
                                     std::uint64_t at) const;
};

/// Tokens drawn uniformly from 0 .. vocabulary - 1, keyed by `seed`. The target is the next token of the sequence; a
/// random share `ignored` of the targets is -1 instead. Requires vocabulary > 0 and 0 <= ignored <= 1.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_data(std::uint64_t vocabulary, std::uint64_t seed,
                                                         double ignored = 0.0);

/// For BERT: the words of `words`, some of which the model must find again. In every sequence, max(1, 15 % of its
/// positions, rounded) positions are chosen, one drawn from each of as many equal stretches. A chosen token becomes the
/// mask, the vocabulary's last, in 80 % of cases, a random one in 10 %, and itself in the rest. Its target is the
/// original token; all other targets are -1 (Devlin et al., "BERT", 2019, section 3.1). The first half of a sequence is
/// segment 0, the second segment 1 and on.
[[nodiscard]] std::unique_ptr<DataSource> masked_data(std::unique_ptr<DataSource> words, const ModelSpec&,
                                                      const Workload&);

/// For ViT: images of numbers uniform in [-1, 1), each with a class that is the target of position 0; all other targets
/// are -1.
[[nodiscard]] std::unique_ptr<DataSource> image_data(std::uint64_t classes, std::uint64_t seed);

/// A text file read as bytes, one token per byte. Sequence n of step s starts at a place drawn from (seed, s, n) that
/// length + 1 bytes follow; the target is the next byte. Throws Error when the file cannot be read, has fewer than
/// length + 1 bytes, or holds a byte that is not below `vocabulary`.
[[nodiscard]] std::unique_ptr<DataSource> text_data(const std::string& path, std::uint64_t vocabulary,
                                                    std::uint64_t length, std::uint64_t seed);

/// The data that the workload names: its token file, or synthetic tokens when
/// it names none.  A relative path is relative to the working directory.
[[nodiscard]] std::unique_ptr<DataSource> data_of(const ModelSpec&, const Workload&);

/// The token `ahead` positions further on, and the target there: the input and the target of a prediction module.
/// Behind the end of the sequence the token is 0 and the target -1.
[[nodiscard]] std::int32_t token_ahead(const DataSource&, const Workload&, std::uint64_t step, std::uint64_t sequence,
                                       std::uint64_t position, std::uint64_t ahead);
[[nodiscard]] std::int32_t target_ahead(const DataSource&, const Workload&, std::uint64_t step, std::uint64_t sequence,
                                        std::uint64_t position, std::uint64_t ahead);

/// Number of targets of the step that count in the loss, over the global batch; `ahead` as above.
[[nodiscard]] std::uint64_t count_targets(const DataSource&, const Workload&, std::uint64_t step,
                                          std::uint64_t ahead = 0);

}  // namespace orrery
