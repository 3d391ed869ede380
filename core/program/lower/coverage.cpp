#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {

std::size_t count(const std::vector<Action>& actions, Phase phase) {
  return static_cast<std::size_t>(
      std::count_if(actions.begin(), actions.end(), [&](const Action& a) { return a.phase == phase; }));
}

std::string covered(const Stage& stage, Phase phase, std::uint32_t microbatch, std::uint32_t times) {
  return covered(stage, phase, microbatch, [&](std::uint32_t) { return times; });
}

std::string covered(const Stage& stage, Phase phase, std::uint32_t microbatch,
                    const std::function<std::uint32_t(std::uint32_t)>& times) {
  std::uint32_t end = 0;
  for (const Chunk& c : stage.chunks) end = std::max(end, c.low_layer + c.layers);
  std::vector<std::uint32_t> layers(end), expected(end);
  std::uint32_t embedding = 0, head = 0, expected_embedding = 0, expected_head = 0;
  for (std::uint32_t i = 0; i < stage.own_chunks; ++i) {
    const Chunk& c = stage.chunks[i];
    for (std::uint32_t l = 0; l < c.layers; ++l) expected[c.low_layer + l] = times(i);
    if (c.embedding) expected_embedding = times(i);
    if (c.head) expected_head = times(i);
  }
  for (const auto* list : {&stage.setup, &stage.step}) {
    for (const Action& a : *list) {
      if (a.phase != phase || a.microbatch != microbatch) continue;
      const Chunk& c = stage.chunks[a.chunk];
      for (std::uint32_t l = 0; l < c.layers; ++l) ++layers[c.low_layer + l];
      if (c.embedding) ++embedding;
      if (c.head) ++head;
    }
  }
  if (embedding == expected_embedding && head == expected_head && layers == expected) return {};
  return fmt::format("stage {}: phase {} of microbatch {} does not run as often as it should for every module",
                     stage.number, static_cast<int>(phase), microbatch);
}

}  // namespace orrery::lowering
