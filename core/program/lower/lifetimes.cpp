#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

/// The blocks that one microbatch meets on its way through a model whose layers are `like` those of this one, forward
/// and back, whatever stages they lie on. The last of these layers are those of all prediction modules.
struct Run {
  BlockId block{};
  std::uint32_t layer = 0;
};
std::vector<Run> way_of_a_microbatch(const State& s, const std::vector<std::uint32_t>& like) {
  const auto end = static_cast<std::uint32_t>(like.size()), layers = end - 2 * s.predictions;
  std::vector<Run> way = {{s.blocks(Phase::forward).embedding, 0}};
  const auto run = [&](BlockId block, std::uint32_t l) {
    if (block != no_block) way.push_back({block, l});
  };
  const auto layer = [&](Phase phase, std::uint32_t l) { run(block_of_layer(s, s.blocks(phase), like[l]), l); };
  const auto head = [&](Phase phase, std::uint32_t prediction) {
    const ModuleBlocks& blocks = s.blocks(phase);
    run(prediction == 0 ? blocks.head : blocks.prediction_heads[prediction - 1], layers + 2 * prediction);
  };
  for (std::uint32_t l = 0; l < end; ++l) {
    if (l >= layers && (l - layers) % 2 == 0) head(Phase::forward, (l - layers) / 2);
    layer(Phase::forward, l);
  }
  head(Phase::forward, s.predictions);
  head(Phase::backward, s.predictions);
  for (std::uint32_t l = end; l-- > 0;) {
    layer(Phase::backward, l);
    if (l >= layers && (l - layers) % 2 == 0) head(Phase::backward, (l - layers) / 2);
  }
  run(s.blocks(Phase::backward).embedding, 0);
  // Weight gradients come any time later, layer by layer.
  if (s.split_backward) {
    for (std::uint32_t l = end; l-- > 0;) layer(Phase::weight, l);
  }
  return way;
}

std::vector<std::uint32_t> with_predictions(const State& s, std::vector<std::uint32_t> like) {
  for (auto l = static_cast<std::uint32_t>(s.model.layers); l < s.program.layers; ++l) like.push_back(l);
  return like;
}

/// Number of the instance that a run of a block at `layer` uses.
std::size_t instance(const State& s, BufferId buffer, std::uint32_t layer, std::int8_t shift, std::uint32_t layers) {
  const std::uint32_t at = per_layer(s.program[buffer].scope) ? layer + static_cast<std::uint32_t>(shift) : 0;
  return std::size_t{index(buffer)} * (layers + 1) + at;
}

/// The op makes all of the buffer anew and takes nothing from it.
bool only_writes(const Block& block, const Op& op, const View& view) {
  bool only = true;
  for_each_view(block, op, [&](const View& v) {
    if (v.buffer == view.buffer && v.layer_shift == view.layer_shift && v.use != View::Use::write) only = false;
  });
  return only;
}

/// The life of an instance, from the op that first makes it to the last one that uses it.
struct Life {
  BufferId buffer{};
  std::uint32_t first_run, last_run;
  std::uint32_t first_op, last_op;
  std::int8_t first_shift, last_shift;
};

/// Lives of all buffers that do not persist, in order of their beginning. A buffer that another block makes anew does
/// not live in between: recomputed activations and workspaces are held inside their blocks alone.
std::vector<Life> lives_of(const State& s, const std::vector<Run>& way, std::uint32_t layers) {
  constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<Life> lives;
  lives.reserve(64);
  std::vector<std::uint32_t> current(s.program.buffers.size() * (layers + 1), none);
  for (std::uint32_t r = 0; r < way.size(); ++r) {
    const Block& block = s[way[r].block].block;
    for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      for_each_view(block, op, [&](const View& v) {
        if (is_persistent(s.program[v.buffer])) return;
        std::uint32_t& life = current[instance(s, v.buffer, way[r].layer, v.layer_shift, layers)];
        if (life == none || (lives[life].last_run != r && only_writes(block, op, v))) {
          life = static_cast<std::uint32_t>(lives.size());
          lives.push_back({v.buffer, r, r, i, i, v.layer_shift, v.layer_shift});
        } else {
          lives[life].last_run = r;
          lives[life].last_op = i;
          lives[life].last_shift = v.layer_shift;
        }
      });
    }
  }
  // Where the embedding is not trained nobody reads the gradient that the first layer leaves.
  if (!s.trains_weights() && way.back().block == s.blocks(Phase::backward).embedding) {
    const std::uint32_t life = current[instance(s, s.hidden_gradient, 0, 0, layers)];
    lives[life].last_run = static_cast<std::uint32_t>(way.size() - 1);
    lives[life].last_op = 0;
    lives[life].last_shift = 0;
  }
  return lives;
}

struct Edge {
  std::uint32_t op;
  bool alloc;  ///< before `op`; else a free after it
  BufferId what;
  std::int8_t shift;
};

void insert(Draft& draft, std::vector<Edge>& edges) {
  if (edges.empty()) return;
  std::vector<Op> ops;
  ops.reserve(draft.block.ops.size() + edges.size());
  std::vector<std::pair<std::uint32_t, Lane>> tails;
  // Edges at one op stand in the order in which the lives began.
  if (edges.size() > 1) {
    std::stable_sort(edges.begin(), edges.end(),
                     [](const Edge& a, const Edge& b) { return a.op != b.op ? a.op < b.op : a.alloc && !b.alloc; });
  }
  auto edge = edges.begin();
  for (std::uint32_t i = 0; i < draft.block.ops.size(); ++i) {
    for (; edge != edges.end() && edge->op == i && edge->alloc; ++edge) {
      ops.push_back({Alloc{edge->what, edge->shift}, {}, {}, {}});
    }
    for (const auto& [at, lane] : draft.tails) {
      if (at == i) tails.emplace_back(static_cast<std::uint32_t>(ops.size()), lane);
    }
    ops.push_back(draft.block.ops[i]);
    for (; edge != edges.end() && edge->op == i; ++edge) {
      ops.push_back({Free{edge->what, edge->shift}, {}, {}, {}});
    }
  }
  for (; edge != edges.end(); ++edge) ops.push_back({Free{edge->what, edge->shift}, {}, {}, {}});  // of an empty block
  draft.block.ops = std::move(ops);
  draft.tails = std::move(tails);
}

/// What setup makes stays alive. Between stages, a receive begins the life of what it brings and a send ends that of
/// what it takes away.
void add_edges_of_one_block(const State& s, const Block& block, std::vector<Edge>& edges) {
  const auto known = [&](BufferId b) {
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.what == b; });
  };
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    const auto* exchange = std::get_if<Exchange>(&op.action);
    for_each_view(block, op, [&](const View& v) {
      if (exchange != nullptr) {
        edges.push_back({i, !block.transfers[exchange->transfers.first].send, v.buffer, v.layer_shift});
      } else if (block.pass == Pass::setup && is_persistent(s.program[v.buffer]) && !known(v.buffer)) {
        edges.push_back({i, true, v.buffer, v.layer_shift});
      }
    });
  }
}

/// Buffers that only an update, or setup, needs live inside its block.
void add_edges_of_update(const State& s, const Block& block, std::vector<Edge>& edges) {
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    for_each_view(block, block.ops[i], [&](const View& v) {
      if (is_persistent(s.program[v.buffer])) return;
      const auto end =
          std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return !e.alloc && e.what == v.buffer; });
      if (end != edges.end()) {
        end->op = i;
        return;
      }
      edges.push_back({i, true, v.buffer, v.layer_shift});
      edges.push_back({i, false, v.buffer, v.layer_shift});
    });
  }
}

std::string before(const State& s) {
  if (s.drafts.empty()) return "there are no blocks";
  for (const Draft& d : s.drafts) {
    if (!d.seams.empty()) return d.block.name + " still has seams";
    if (std::any_of(d.block.ops.begin(), d.block.ops.end(), is_memory)) return d.block.name + " already allocates";
  }
  return {};
}

void run(State& s) {
  // Every layer of a kind runs the same block, so the first shows all lives.
  const std::vector<std::uint32_t> like = with_predictions(s, one_of_each_kind(s));
  const auto layers = static_cast<std::uint32_t>(like.size());
  const std::vector<Run> way = way_of_a_microbatch(s, like);
  std::vector<std::vector<Edge>> edges(way.size());
  for (const Life& life : lives_of(s, way, layers)) {
    edges[life.first_run].push_back({life.first_op, true, life.buffer, life.first_shift});
    edges[life.last_run].push_back({life.last_op, false, life.buffer, life.last_shift});
  }
  std::vector<bool> seen(s.drafts.size(), false);
  for (std::size_t r = 0; r < way.size(); ++r) {
    if (!seen[index(way[r].block)]) insert(s[way[r].block], edges[r]);
    seen[index(way[r].block)] = true;
  }
  std::vector<Edge> own;
  const ModuleBlocks& updates = s.blocks(Phase::update);
  std::vector<BlockId> own_lives = {updates.embedding, updates.head};
  for (const LayerKind& kind : s.kinds) {
    if (!s.is_first_with_module(kind)) continue;  // they have the same blocks
    for (const BlockId block : {updates[kind].plain, updates[kind].on_host, updates[kind].remote}) {
      own_lives.push_back(block);
    }
  }
  for (const BlockId id : own_lives) {
    if (id == no_block) continue;
    own.clear();
    add_edges_of_update(s, s[id].block, own);
    insert(s[id], own);
  }
  for (Draft& d : s.drafts) {
    if (d.block.transfers.empty() && d.block.pass != Pass::setup) continue;
    own.clear();
    add_edges_of_one_block(s, d.block, own);
    if (d.block.pass == Pass::setup) add_edges_of_update(s, d.block, own);
    insert(d, own);
  }
}

/// On the way of a microbatch through some layers, every use lies between an
/// allocation and a free, nothing is allocated twice, and nothing is left;
/// what persists is allocated by setup alone.
std::string after(const State& s) {
  // A few of each kind, as on two stages: twice some that recompute below others.
  std::vector<std::uint32_t> like;
  for (const LayerKind& kind : s.kinds) {
    std::vector<std::uint32_t> of;
    for (const std::uint32_t l : one_of_each_kind(s)) {
      if (&s.kind_of(l) == &kind) of.push_back(l);
    }
    if (of.empty()) continue;
    for (const std::size_t i : {0, 0, 1, 1, 0, 1}) like.push_back(of[std::min(i, of.size() - 1)]);
  }
  like = with_predictions(s, std::move(like));
  const auto layers = static_cast<std::uint32_t>(like.size());
  std::vector<bool> live(s.program.buffers.size() * (layers + 1));
  for (const Run& run : way_of_a_microbatch(s, like)) {
    const Block& block = s[run.block].block;
    for (const Op& op : block.ops) {
      const auto at = [&](BufferId b, std::int8_t shift) { return instance(s, b, run.layer, shift, layers); };
      const auto wrong = [&](BufferId b, const char* what) {
        return fmt::format("{} {} in {}", s.program[b].name, what, block.name);
      };
      if (const auto* alloc = std::get_if<Alloc>(&op.action)) {
        if (live[at(alloc->what, alloc->layer_shift)]) return wrong(alloc->what, "is allocated twice");
        live[at(alloc->what, alloc->layer_shift)] = true;
      } else if (const auto* free = std::get_if<Free>(&op.action)) {
        if (!live[at(free->what, free->layer_shift)]) return wrong(free->what, "is freed without need");
        live[at(free->what, free->layer_shift)] = false;
      }
      std::string unmade;
      for_each_view(block, op, [&](const View& v) {
        if (is_persistent(s.program[v.buffer]) || live[at(v.buffer, v.layer_shift)]) return;
        unmade = wrong(v.buffer, "is used while it does not live");
      });
      if (!unmade.empty()) return unmade;
    }
  }
  const auto left = std::find(live.begin(), live.end(), true);
  if (left == live.end()) return {};
  return s.program.buffers[static_cast<std::size_t>(left - live.begin()) / (layers + 1)].name + " is never freed";
}

}  // namespace

LoweringPass lifetimes() { return {"lifetimes", before, run, after}; }

}  // namespace orrery::lowering
