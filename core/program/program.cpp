#include "core/program/program.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

std::uint32_t group_size(const Group& group, const Mesh& mesh) {
  if (!group.members.empty()) return static_cast<std::uint32_t>(group.members.size());
  return static_cast<std::uint32_t>(size(mesh, group.axes));
}

namespace {

/// The member with row-major coordinate `at` over the group's axes.
Rank member(const Group& group, const Mesh& mesh, Rank rank, std::uint64_t at) {
  for (std::size_t i = group.axes.count; i-- > 0;) {
    const Axis axis = group.axes.axis[i];
    rank = mesh.moved(rank, axis, static_cast<std::uint32_t>(at % mesh.size(axis)));
    at /= mesh.size(axis);
  }
  return rank;
}

}  // namespace

std::vector<Rank> group_ranks(const Group& group, const Mesh& mesh, Rank rank) {
  std::vector<Rank> ranks;
  const std::uint32_t n = group_size(group, mesh);
  ranks.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    ranks.push_back(member(group, mesh, rank, group.members.empty() ? i : group.members[i]));
  }
  return ranks;
}

std::optional<Peer> peer_of(const Group& group, const Mesh& mesh, Rank rank) {
  const std::uint64_t at = coordinate(mesh, rank, group.axes);
  if (group.members.empty()) return static_cast<Peer>(at);
  for (std::uint32_t i = 0; i < group.members.size(); ++i) {
    if (group.members[i] == at) return Peer{i};
  }
  return std::nullopt;
}

std::uint32_t class_of(const Program& program, Rank rank) {
  return static_cast<std::uint32_t>(coordinate(program.mesh, rank, program.class_axes));
}

Rank representative(const Program& program, std::uint32_t rank_class) {
  return member(Group{program.class_axes, {}}, program.mesh, Rank{0}, rank_class);
}

Instance instance_of(const Program& program, BufferId buffer, std::int8_t layer_shift, std::uint32_t layer,
                     std::uint32_t microbatch) {
  const Scope scope = program[buffer].scope;
  return {buffer, per_layer(scope) ? static_cast<std::uint32_t>(static_cast<std::int64_t>(layer) + layer_shift) : 0,
          per_microbatch(scope) ? microbatch : 0};
}

std::uint64_t offset_on(const Mesh& mesh, const View& view, Rank rank) {
  return view.member_of.empty() ? view.offset : view.offset + coordinate(mesh, rank, view.member_of) * view.count;
}

std::uint64_t payload_bytes(const Program& program, const Block& block, const Op& op) {
  const auto* collective = std::get_if<Collective>(&op.action);
  ORRERY_ASSERT(collective != nullptr);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < op.views.count; ++i) {
    const View& v = block.views[op.views.first + i];
    bool whole = true;
    switch (collective->kind) {
      case Collective::Kind::all_gather: whole = i % 2 == 1; break;
      case Collective::Kind::reduce_scatter:
      case Collective::Kind::all_to_all:
      case Collective::Kind::permute: whole = i % 2 == 0; break;
      case Collective::Kind::reduce:
      case Collective::Kind::broadcast: whole = i % 2 == 0 || !is_paired(block, op, *collective); break;
      case Collective::Kind::all_reduce:
      case Collective::Kind::barrier: break;
    }
    if (whole) bytes += v.count * size_of(program[v.buffer].dtype);
  }
  return bytes;
}

std::uint64_t touched_bytes(const Program& program, const Block& block, const Op& op) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < op.views.count; ++i) {
    const View& v = block.views[op.views.first + i];
    bytes += v.count * size_of(program[v.buffer].dtype) * (v.use == View::Use::accumulate ? 2U : 1U);
  }
  return bytes;
}

std::uint64_t ring_bytes_sent(Collective::Kind kind, std::uint64_t count, std::uint64_t element, std::uint32_t members,
                              std::uint32_t peer, std::uint32_t root) {
  ORRERY_ASSERT(members >= 1 && peer < members && root < members, members, peer, root);
  if (members == 1) return 0;
  const auto chunk = [&](std::uint32_t c) {
    c %= members;
    return (c + 1) * count / members - c * count / members;
  };
  switch (kind) {
    case Collective::Kind::all_reduce: return element * (2 * count - chunk(peer) - chunk(peer + 1));
    case Collective::Kind::reduce_scatter: return element * (count - chunk(peer));
    case Collective::Kind::all_gather: return element * (count - chunk(peer + 1));
    case Collective::Kind::all_to_all: return element * (count - chunk(peer));
    case Collective::Kind::broadcast: return (peer + 1) % members == root ? 0 : element * count;
    case Collective::Kind::reduce: return peer == root ? 0 : element * count;
    case Collective::Kind::permute: return element * count;
    case Collective::Kind::barrier: return 0;
  }
  return 0;
}

}  // namespace orrery
