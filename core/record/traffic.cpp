#include "core/record/traffic.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

namespace {

/// Elements of the whole-sized views, where all have one dtype (they form one message).
struct Message {
  std::uint64_t count = 0;
  std::uint64_t element = 0;
};

Message message_of(const Program& program, const Block& block, const Op& op) {
  Message message;
  if (op.views.count == 0) return message;
  const std::uint64_t bytes = payload_bytes(program, block, op);
  message.element = size_of(program[block.views[op.views.first].buffer].dtype);
  ORRERY_ASSERT(message.element > 0 && bytes % message.element == 0, bytes, message.element);
  message.count = bytes / message.element;
  return message;
}

std::uint64_t exchange_bytes(const Program& program, const Block& block, const Op& op, const Exchange& exchange) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < exchange.transfers.count; ++i) {
    const Transfer& t = block.transfers[exchange.transfers.first + i];
    if (!t.send) continue;
    const View& v = block.views[op.views.first + t.view];
    bytes += v.count * size_of(program[v.buffer].dtype);
  }
  return bytes;
}

}  // namespace

std::uint64_t sent_bytes(const Program& program, const Block& block, const Op& op, Rank rank) {
  if (const auto* exchange = std::get_if<Exchange>(&op.action)) return exchange_bytes(program, block, op, *exchange);
  const auto* collective = std::get_if<Collective>(&op.action);
  if (collective == nullptr) return 0;
  const Group& group = program[collective->group];
  const auto peer = peer_of(group, program.mesh, rank);
  ORRERY_ASSERT(peer.has_value(), rank);
  const Message m = message_of(program, block, op);
  return ring_bytes_sent(collective->kind, m.count, m.element, group_size(group, program.mesh), index(*peer),
                         index(collective->root));
}

std::uint64_t group_sent_bytes(const Program& program, const Block& block, const Op& op) {
  const auto* collective = std::get_if<Collective>(&op.action);
  ORRERY_ASSERT(collective != nullptr);
  const std::uint64_t bytes = payload_bytes(program, block, op);
  const std::uint64_t others = group_size(program[collective->group], program.mesh) - 1;
  // Each chunk of n is sent by all members but one (twice for an all-reduce), whatever its size.
  switch (collective->kind) {
    case Collective::Kind::all_reduce: return 2 * others * bytes;
    case Collective::Kind::reduce:
    case Collective::Kind::broadcast:
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::all_to_all: return others * bytes;
    case Collective::Kind::permute: return (others + 1) * bytes;
    case Collective::Kind::barrier: return 0;
  }
  return 0;
}

}  // namespace orrery
