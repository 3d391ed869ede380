#include "gui/model/moves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace orrery::gui {
namespace {

using Motion = RankMove::Motion;

/// The motion of a collective; a barrier moves nothing.
std::optional<Motion> motion_of(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::all_reduce: return Motion::all_reduce;
    case Collective::Kind::reduce: return Motion::reduce;
    case Collective::Kind::broadcast: return Motion::broadcast;
    case Collective::Kind::all_gather: return Motion::all_gather;
    case Collective::Kind::reduce_scatter: return Motion::reduce_scatter;
    case Collective::Kind::all_to_all: return Motion::all_to_all;
    case Collective::Kind::permute: return Motion::permute;
    case Collective::Kind::barrier: return std::nullopt;
  }
  return std::nullopt;
}

/// The three axes of the grid: those of tensor grids, or the innermost ones longer than 1.
struct GridAxes {
  std::optional<Axis> layer, row, column;
};
GridAxes grid_axes(const Mesh& mesh) {
  GridAxes out;
  if (mesh.size(Axis::row) > 1 || mesh.size(Axis::column) > 1) {
    if (mesh.size(Axis::depth) > 1) out.layer = Axis::depth;
    out.row = Axis::row;
    out.column = Axis::column;
    return out;
  }
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::replica}) {
    if (mesh.size(axis) == 1) continue;
    if (!out.column) {
      out.column = axis;
    } else if (!out.row) {
      out.row = axis;
    }
  }
  return out;
}

std::uint32_t shown(const Mesh& mesh, std::optional<Axis> axis) {
  return axis ? std::min(mesh.size(*axis), most_cells) : 1;
}

/// Adds the arrows of each cell's group.
void add_arrows(const Program& program, const Collective& c, const RankMoves& grid, RankMove& move) {
  const auto cell_of = [&](Rank rank) -> std::optional<std::uint32_t> {
    const auto at = std::find(grid.ranks.begin(), grid.ranks.end(), rank);
    if (at == grid.ranks.end()) return std::nullopt;
    return static_cast<std::uint32_t>(at - grid.ranks.begin());
  };
  const Group& group = program[c.group];
  for (std::uint32_t cell = 0; cell < grid.ranks.size(); ++cell) {
    const std::optional<Peer> own = peer_of(group, program.mesh, grid.ranks[cell]);
    if (!own) continue;
    const std::vector<Rank> members = group_ranks(group, program.mesh, grid.ranks[cell]);
    const auto p = static_cast<std::uint32_t>(members.size());
    const std::uint32_t me = index(*own), root = index(c.root);
    const auto to = [&](std::uint32_t peer) {
      const auto other = cell_of(members[peer]);
      if (other && *other != cell) move.arrows.push_back({cell, *other});
    };
    switch (move.motion) {
      case Motion::product:
      case Motion::attend: break;
      case Motion::broadcast:
        for (std::uint32_t peer = 0; me == root && peer < p; ++peer) to(peer);
        break;
      case Motion::reduce: to(root); break;
      case Motion::all_gather:
      case Motion::reduce_scatter:
      case Motion::all_reduce:
        if (p > 1) to((me + 1) % p);  // around the ring
        break;
      case Motion::all_to_all:
        for (std::uint32_t peer = 0; peer < p; ++peer) to(peer);
        break;
      case Motion::permute: {
        const std::uint32_t width = c.width == 0 ? p : c.width;
        to(me / width * width + (me % width + root) % width);
        break;
      }
    }
  }
}

std::string axes_of(const Group& group) {
  std::string out;
  for (const Axis axis : group.axes) out += (out.empty() ? "" : " + ") + std::string(name_of(axis));
  return out;
}

std::string operands(const Program& program, const Block& block, const Op& op) {
  std::string out;
  std::string last;
  for (std::uint32_t v = 0; v < op.views.count; ++v) {
    const std::string& name = program[block.views[op.views.first + v].buffer].name;
    if (name == last) continue;
    out += (out.empty() ? "" : ", ") + name;
    last = name;
  }
  return out;
}

bool is_attention(KernelKind kind) { return name_of(kind).find("attention") != std::string_view::npos; }

std::optional<RankMove> move_of(const Program& program, const Block& block, const Op& op, const RankMoves& grid) {
  RankMove move;
  if (const auto* compute = std::get_if<Compute>(&op.action)) {
    const Kernel& kernel = block.kernels[compute->kernel];
    if (kernel.kind == KernelKind::gemm) {
      move.shape = fmt::format("{} x {} x {}", kernel.rows, kernel.depth, kernel.columns);
    } else if (is_attention(kernel.kind)) {
      move.motion = Motion::attend;
    } else {
      return std::nullopt;
    }
    move.what = operands(program, block, op);
    return move;
  }
  const auto* collective = std::get_if<Collective>(&op.action);
  if (collective == nullptr || group_size(program[collective->group], program.mesh) == 1) return std::nullopt;
  const auto motion = motion_of(collective->kind);
  if (!motion) return std::nullopt;
  move.motion = *motion;
  move.what = operands(program, block, op);
  move.along = axes_of(program[collective->group]);
  move.bytes = payload_bytes(program, block, op);
  add_arrows(program, *collective, grid, move);
  return move;
}

bool moves(const Program& program, const Block& block) {
  return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op& op) {
    const auto* c = std::get_if<Collective>(&op.action);
    if (c != nullptr) return group_size(program[c->group], program.mesh) > 1;
    const auto* compute = std::get_if<Compute>(&op.action);
    return compute != nullptr && block.kernels[compute->kernel].kind == KernelKind::gemm;
  });
}

/// The blocks of rank 0's class, each once.
std::vector<const Block*> blocks_of(const Program& program) {
  std::vector<const Block*> out;
  std::set<BlockId> seen;
  for (const Slot& slot : program.classes[class_of(program, Rank{0})].step) {
    if (seen.insert(slot.block).second && moves(program, program[slot.block])) out.push_back(&program[slot.block]);
  }
  return out;
}

}  // namespace

std::vector<std::string> blocks_with_moves(const Program& program) {
  std::vector<std::string> out;
  for (const Block* block : blocks_of(program)) out.push_back(block->name);
  return out;
}

RankMoves moves_of(const Program& program, const std::string& name) {
  RankMoves out;
  const Mesh& mesh = program.mesh;
  const GridAxes axes = grid_axes(mesh);
  out.layers = shown(mesh, axes.layer);
  out.rows = shown(mesh, axes.row);
  out.columns = shown(mesh, axes.column);
  if (axes.layer) out.layer_axis = name_of(*axes.layer);
  if (axes.row) out.row_axis = name_of(*axes.row);
  if (axes.column) out.column_axis = name_of(*axes.column);
  for (std::uint32_t l = 0; l < out.layers; ++l) {
    for (std::uint32_t r = 0; r < out.rows; ++r) {
      for (std::uint32_t c = 0; c < out.columns; ++c) {
        Rank rank{0};
        if (axes.layer) rank = mesh.moved(rank, *axes.layer, l);
        if (axes.row) rank = mesh.moved(rank, *axes.row, r);
        if (axes.column) rank = mesh.moved(rank, *axes.column, c);
        out.ranks.push_back(rank);
      }
    }
  }
  const std::vector<const Block*> blocks = blocks_of(program);
  const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const Block* b) {
    return name.empty() ? b->pass == Pass::forward && b->name.find("layer") != std::string::npos : b->name == name;
  });
  if (at == blocks.end()) return out;
  out.block = (*at)->name;
  for (const Op& op : (*at)->ops) {
    if (auto move = move_of(program, **at, op, out)) out.moves.push_back(std::move(*move));
  }
  return out;
}

}  // namespace orrery::gui
