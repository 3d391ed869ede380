#include "planner/longer_stages.hpp"

#include <algorithm>
#include <limits>

#include "core/base/diagnostics.hpp"

namespace orrery {

void LongerStages::read(const Program& program, const std::vector<std::uint32_t>& split) {
  split_ = split;
  levers_.clear();
  most_less_.assign(split.size(), std::numeric_limits<std::uint32_t>::max());
  std::vector<std::uint32_t> stage_of;  // by layer
  for (std::uint32_t s = 0; s < split.size(); ++s) stage_of.insert(stage_of.end(), split[s], s);
  stages_.assign(program.classes.size(), {});
  alike_ = true;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const std::vector<Slot>& slots = program.classes[c].step;
    pieces_.clear();
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      if (slot.layer >= stage_of.size()) continue;
      pieces_.push_back({slot.microbatch, index(slot.block), stage_of[slot.layer], i, slot.repeat});
    }
    std::sort(pieces_.begin(), pieces_.end());
    // A stage may run its layers in pieces, with sums of gradients between them: the longest piece is the lever.
    for (std::size_t first = 0, next = 0; first < pieces_.size(); first = next) {
      const Piece& p = pieces_[first];
      Lever lever{c, p.slot, p.stage, p.repeat};
      std::uint32_t layers = 0;
      for (; next < pieces_.size() && pieces_[next].same_run(p); ++next) {
        layers += pieces_[next].repeat;
        if (pieces_[next].repeat > lever.repeat) lever.slot = pieces_[next].slot, lever.repeat = pieces_[next].repeat;
      }
      if (layers < 2) continue;  // a layer at an end, the embedding, a sum
      const std::uint32_t of_stage = split[p.stage];
      alike_ = alike_ && 2 * layers > of_stage && layers + 2 >= of_stage;
      levers_.push_back(lever);
      std::vector<std::uint32_t>& stages = stages_[c];
      if (std::find(stages.begin(), stages.end(), p.stage) == stages.end()) stages.push_back(p.stage);
      most_less_[p.stage] = std::min(most_less_[p.stage], lever.repeat);
    }
  }
}

bool LongerStages::knows(const std::vector<std::uint32_t>& split) const {
  if (!alike_ || split.size() != split_.size()) return false;
  for (std::size_t s = 0; s < split.size(); ++s) {
    if (split[s] != split_[s] && most_less_[s] == std::numeric_limits<std::uint32_t>::max()) return false;  // no lever
    if (split[s] < split_[s] && split_[s] - split[s] > most_less_[s]) return false;
  }
  return true;
}

double LongerStages::least_share(const std::vector<std::uint32_t>& split, std::uint32_t rank_class) const {
  double before = 0, after = 0;
  for (const std::uint32_t s : stages_[rank_class]) {
    before += split_[s];
    after += split[s];
  }
  return before == 0 ? 0 : std::min(1.0, after / before);
}

Picoseconds LongerStages::least_step(Program& program, Estimator& estimator,
                                     const std::vector<std::uint32_t>& split) const {
  ORRERY_ASSERT(knows(split), split.size());
  double saved = 0;
  std::vector<bool> counted(program.classes.size() * split.size(), false);
  for (const Lever& l : levers_) {
    Slot& slot = program.classes[l.rank_class].step[l.slot];
    slot.repeat = l.repeat + split[l.stage] - split_[l.stage];
    const std::size_t at = l.rank_class * split.size() + l.stage;
    if (split[l.stage] >= split_[l.stage] || counted[at]) continue;
    counted[at] = true;
    saved += 2.0 * static_cast<double>(estimator.time_in(Pass::optimizer, l.rank_class)) *
             (split_[l.stage] - split[l.stage]) / split_[l.stage];
  }
  const Picoseconds step = estimator.step_again();
  for (const Lever& l : levers_) program.classes[l.rank_class].step[l.slot].repeat = l.repeat;
  return step - static_cast<Picoseconds>(saved);
}

}  // namespace orrery
