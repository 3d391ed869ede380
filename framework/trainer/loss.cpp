#include "framework/trainer/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace orrery {
namespace {

std::uint64_t positions_of_sequence(const LaunchReading& r) {
  return std::max<std::uint64_t>(1, r.plan_number("workload.sequence", 1) / r.plan_number("mesh.context", 1));
}

/// The most pieces, up to `most`, that divide a rank's positions of a sequence.
std::uint64_t dividing(const LaunchReading& r, std::uint64_t most) {
  const std::uint64_t positions = positions_of_sequence(r);
  std::uint64_t n = std::clamp<std::uint64_t>(most, 1, positions);
  while (positions % n != 0) --n;
  return n;
}

}  // namespace

std::uint64_t liger_pieces(std::uint64_t positions, std::uint64_t vocabulary, std::uint64_t hidden) {
  const auto over = [](std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; };
  const std::uint64_t piece = std::bit_ceil(over(positions, over(vocabulary, hidden)));
  return over(positions, piece);
}

void put_loss_pieces(LaunchReading& r, std::string_view from, std::uint64_t pieces) {
  const std::uint64_t chunks = dividing(r, pieces);
  r.set(from, "plan.loss_chunks", std::to_string(chunks));
  if (chunks != pieces) r.take(from, fmt::format("of {} pieces, as many as divide the sequence", pieces));
}

void put_liger_loss(LaunchReading& r, std::string_view from) {
  const ModelSpec* model = r.known_model();
  if (model == nullptr) return r.take(from, "the loss in chunks");  // the missing model is an error of its own
  const std::uint64_t positions = positions_of_sequence(r) * r.plan_number("plan.microbatch_size", 1);
  put_loss_pieces(r, from, liger_pieces(positions, model->vocabulary, model->hidden));
}

void refuse_fused_loss(LaunchReading& r, std::string_view from) {
  constexpr std::uint64_t most = 16;  // beyond it other tensors set the peak
  const std::uint64_t chunks = dividing(r, most);
  r.assume("plan.loss_chunks", std::to_string(chunks), "the nearest to a loss that never holds logits");
  r.refuse(from, "a loss whose logits never leave the kernel is not in plans",
           fmt::format("the logits in {} pieces, one at a time", chunks));
}

}  // namespace orrery
