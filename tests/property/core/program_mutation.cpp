#include "tests/property/core/program_mutation.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

using Random = std::mt19937_64;

std::size_t draw(Random& random, std::size_t count) { return static_cast<std::size_t>(random() % count); }

/// Gives one class its own copy of a block, so that a change shows there only.
std::uint32_t own_copy(Program& p, std::uint32_t rank_class, std::uint32_t block) {
  const BlockId copy{static_cast<std::uint32_t>(p.blocks.size())};
  p.blocks.push_back(p.blocks[block]);
  for (Slot& s : p.classes[rank_class].step) {
    if (index(s.block) == block) s.block = copy;
  }
  return index(copy);
}

}  // namespace

std::vector<Item> items_of(const Block& block) {
  std::vector<Item> items;
  for (const Op& op : block.ops) {
    Item item{op, {}, {}, {}, static_cast<std::uint32_t>(items.size())};
    const auto part = [](const auto& all, Range range) {
      return std::vector(all.begin() + range.first * (range.count > 0 ? 1 : 0),
                         all.begin() + (range.count > 0 ? range.first + range.count : 0));
    };
    item.views = part(block.views, op.views);
    item.waits = part(block.waits, op.waits);
    if (const auto* e = std::get_if<Exchange>(&op.action)) item.transfers = part(block.transfers, e->transfers);
    items.push_back(std::move(item));
  }
  return items;
}

void assemble(Block& block, const std::vector<Item>& items) {
  std::map<std::uint32_t, std::uint32_t> to;
  for (std::uint32_t i = 0; i < items.size(); ++i) to.try_emplace(items[i].from, i);
  block.ops.clear();
  block.views.clear();
  block.waits.clear();
  block.transfers.clear();
  const auto append = [](auto& all, const auto& part) {
    const Range range{static_cast<std::uint32_t>(all.size()), static_cast<std::uint32_t>(part.size())};
    all.insert(all.end(), part.begin(), part.end());
    return range;
  };
  for (const Item& item : items) {
    Op op = item.op;
    op.views = append(block.views, item.views);
    std::vector<Wait> waits;
    for (Wait w : item.waits) {
      if (w.kind == Wait::Kind::op) {
        if (!to.contains(w.op)) continue;
        w.op = to[w.op];
      }
      waits.push_back(w);
    }
    op.waits = append(block.waits, waits);
    if (auto* e = std::get_if<Exchange>(&op.action)) e->transfers = append(block.transfers, item.transfers);
    block.ops.push_back(op);
  }
}

std::string mutate(Program& p, Random& random) {
  const auto rank_class = static_cast<std::uint32_t>(draw(random, p.classes.size()));
  std::vector<Slot>& slots = p.classes[rank_class].step;
  const std::size_t slot = draw(random, slots.size());
  std::uint32_t block = index(slots[slot].block);
  if (p.classes.size() > 1 && draw(random, 2) == 0) block = own_copy(p, rank_class, block);
  std::vector<Item> items = items_of(p.blocks[block]);
  if (items.empty()) return {};
  const std::size_t at = draw(random, items.size());
  std::string what;
  switch (draw(random, 9)) {
    case 0:
      what = "drop";
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1: {
      what = "duplicate";
      Item twin = items[at];
      twin.from = ~0U;
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(at) + 1, twin);
      break;
    }
    case 2:
      if (at + 1 == items.size()) return {};
      what = "swap";
      std::swap(items[at], items[at + 1]);
      break;
    case 3:
      if (items[at].waits.empty()) return {};
      what = "lose a wait";
      items[at].waits.erase(items[at].waits.begin() +
                            static_cast<std::ptrdiff_t>(draw(random, items[at].waits.size())));
      break;
    case 4: {
      const std::size_t other = draw(random, items.size());
      what = "move";
      const Item item = items[at];
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(std::min(other, items.size())), item);
      break;
    }
    case 5:
      if (slot + 1 == slots.size()) return {};
      std::swap(slots[slot], slots[slot + 1]);
      return "swap runs " + std::to_string(slot) + " and the next";
    case 7:
      if (std::none_of(p.blocks[block].waits.begin(), p.blocks[block].waits.end(),
                       [](const Wait& w) { return w.kind == Wait::Kind::tail && is_receive(w.lane); })) {
        return {};
      }
      if (slots[slot].receives_ahead > 0 && draw(random, 2) == 0) {
        --slots[slot].receives_ahead;
        return "pass over one receive less in run " + std::to_string(slot);
      }
      ++slots[slot].receives_ahead;
      return "pass over one receive more in run " + std::to_string(slot);
    case 6: slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(slot)); return "drop run " + std::to_string(slot);
    default: {
      // Two collectives or exchanges of the block change places.
      std::vector<std::size_t> meetings;
      for (std::size_t i = 0; i < items.size(); ++i) {
        const auto& a = items[i].op.action;
        if (std::holds_alternative<Collective>(a) || std::holds_alternative<Exchange>(a)) meetings.push_back(i);
      }
      if (meetings.size() < 2) return {};
      const std::size_t first = draw(random, meetings.size() - 1);
      what = "exchange meetings";
      std::swap(items[meetings[first]], items[meetings[first + 1]]);
      break;
    }
  }
  assemble(p.blocks[block], items);
  return what + ": " + p.blocks[block].name + " " + std::to_string(at);
}

}  // namespace orrery
