#include "tests/support/attention_kinds.hpp"

#include "core/base/random.hpp"

namespace orrery::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t in(std::uint64_t first, std::uint64_t last) {
    return first + random_bits(seed_, 1, count_++) % (last - first + 1);
  }
  bool once_in(std::uint64_t n) { return in(1, n) == 1; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// One in two or three layers, or some by number, or none.
LayerPattern pattern(Draw& draw, std::uint64_t layers) {
  LayerPattern p;
  if (draw.once_in(2)) p.every = draw.in(2, 3);
  for (std::uint64_t l = 0; l < layers && p.every == 0; ++l) {
    if (draw.once_in(3)) p.layers.push_back(static_cast<std::uint32_t>(l));
  }
  return p;
}

}  // namespace

void add_attention_kinds(std::uint64_t seed, PlannedRun& run) {
  ModelSpec& m = run.model;
  if (m.architecture != Architecture::decoder || m.latent) return;
  Draw draw(seed);
  const bool context = run.plan.mesh.size(Axis::context) > 1;
  const bool scores = context && run.plan.context == ContextAlgorithm::ring_self_attention;
  if (!scores && !draw.once_in(4)) {
    LocalAttention& local = m.local.emplace();
    local.span = draw.once_in(2) ? LocalAttention::Span::window : LocalAttention::Span::chunk;
    local.size = draw.in(1, run.workload.sequence_length + 1);
    local.global = pattern(draw, m.layers);
    if (m.positions == PositionEncoding::rotary && draw.once_in(2)) local.rope_theta = 30.0;
  }
  if (m.positions == PositionEncoding::rotary && draw.once_in(2)) m.unrotated = pattern(draw, m.layers);
  if (m.positions == PositionEncoding::learned && draw.once_in(2)) {
    m.positions = draw.once_in(3) ? PositionEncoding::none : PositionEncoding::alibi;
  }
  const bool ulysses = context && run.plan.context == ContextAlgorithm::ulysses;
  // Bounds in 16 bits follow from what three draws of the rounding change, which gradients of one or two elements with
  // either sign in their sums tell too little of.
  const bool exact = run.workload.precision == Precision::fp64 || run.workload.precision == Precision::fp32;
  m.sinks = !scores && !ulysses && draw.once_in(2) && (exact || m.heads > 2);
  if (draw.once_in(3)) m.attention_scale = 0.4;
  if (!scores && draw.once_in(3)) m.attention_softcap = 0.5;
}

}  // namespace orrery::test
