#include <algorithm>

#include "core/program/lower/block_builder.hpp"

namespace orrery::lowering {
namespace {

bool contains(const std::vector<Touched>& list, const Touched& t) {
  return std::find(list.begin(), list.end(), t) != list.end();
}

bool persistent(const Buffer& b) {
  return b.role == Role::weight || b.role == Role::gradient || b.role == Role::master || b.role == Role::moment ||
         b.role == Role::scalar;
}

struct Use {
  Touched what;
  std::size_t first_block, last_block;
  std::uint32_t first_op, last_op;  ///< in those blocks
};

struct Edge {
  std::uint32_t op;
  bool alloc;  ///< before `op`; else a free after it
  Touched what;
};

/// Rebuilds the ops with allocs before and frees after the given ones.
/// Positions that `tails` name move along.
void insert(Block& block, std::vector<Edge> edges) {
  if (edges.empty()) return;
  std::vector<Op> ops;
  ops.reserve(block.ops.size() + edges.size());
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    for (const Edge& e : edges) {
      if (e.alloc && e.op == i) ops.push_back({Alloc{e.what.buffer, e.what.layer_shift}, {}, {}, {}});
    }
    ops.push_back(block.ops[i]);
    for (const Edge& e : edges) {
      if (!e.alloc && e.op == i) ops.push_back({Free{e.what.buffer, e.what.layer_shift}, {}, {}, {}});
    }
  }
  block.ops = std::move(ops);
}

}  // namespace

void insert_lifetimes(const Program& program, std::span<BlockBuilder*> blocks, const Lifetimes& rules) {
  std::vector<Use> uses;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b]->block();
    for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
      for (std::uint32_t v = 0; v < block.ops[i].views.count; ++v) {
        const View& view = block.views[block.ops[i].views.first + v];
        const Touched t{view.buffer, view.layer_shift};
        if (persistent(program[t.buffer]) || contains(rules.outside, t)) continue;
        const bool kept = contains(rules.kept, t) || contains(rules.allocate_only, t) || contains(rules.free_only, t);
        const auto same = std::find_if(uses.rbegin(), uses.rend(), [&](const Use& u) {
          return u.what == t && (kept || u.first_block == b);
        });
        if (same == uses.rend()) {
          uses.push_back({t, b, b, i, i});
        } else {
          same->last_block = b;
          same->last_op = i;
        }
      }
    }
  }
  std::vector<std::vector<Edge>> edges(blocks.size());
  for (const Use& u : uses) {
    if (!contains(rules.free_only, u.what)) edges[u.first_block].push_back({u.first_op, true, u.what});
    if (!contains(rules.allocate_only, u.what)) edges[u.last_block].push_back({u.last_op, false, u.what});
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    blocks[b]->moved(edges[b].empty() ? std::vector<std::uint32_t>{} : [&] {
      std::vector<std::uint32_t> to(blocks[b]->block().ops.size());
      for (std::uint32_t i = 0; i < to.size(); ++i) {
        to[i] = i;
        for (const Edge& e : edges[b]) {
          if (e.alloc ? e.op <= i : e.op < i) ++to[i];
        }
      }
      return to;
    }());
    insert(blocks[b]->block(), std::move(edges[b]));
  }
}

}  // namespace orrery::lowering
