#include "exec/run/issue.hpp"

namespace orrery {
namespace {

// A tag is a stream (a collective's is its group's number) and a running number in that stream.
constexpr std::uint32_t exchange_stream = 0x80000000U;  // plus the channel

std::uint64_t tag(std::uint32_t stream, std::uint32_t number) { return (std::uint64_t{stream} << 32) | number; }

}  // namespace

std::vector<GroupHere> groups_of(const Program& program, Rank rank) {
  std::vector<GroupHere> groups;
  for (const Group& group : program.groups) {
    groups.push_back({group_ranks(group, program.mesh, rank), peer_of(group, program.mesh, rank)});
  }
  return groups;
}

std::vector<std::vector<Rank>> ranks_of_groups(const Program& program, Rank rank) {
  std::vector<std::vector<Rank>> all;
  for (GroupHere& group : groups_of(program, rank)) all.push_back(std::move(group.ranks));
  return all;
}

Issuer::Issuer(const Program& program, const std::vector<GroupHere>& groups, Storage& storage)
    : program_(program), groups_(groups), storage_(storage), collectives_(program.groups.size(), 0) {}

void Issuer::issue(const OpRun& run, std::uint64_t step, IssuedOp& issued) {
  issued.run = run;
  issued.step = step;
  issued.memory.clear();
  issued.tags.clear();
  if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) {
    storage_.allocate(instance_of(program_, alloc->what, alloc->layer_shift, run.layer, run.microbatch));
    return;
  }
  if (const auto* free = std::get_if<Free>(&run.op->action)) {
    storage_.free(instance_of(program_, free->what, free->layer_shift, run.layer, run.microbatch));
    return;
  }
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const View& v = run.block->views[run.op->views.first + i];
    issued.memory.push_back(storage_.memory(instance_of(program_, v.buffer, v.layer_shift, run.layer, run.microbatch)));
  }
  if (const auto* collective = std::get_if<Collective>(&run.op->action)) {
    issued.tags.push_back(tag(index(collective->group), collectives_[index(collective->group)]++));
  } else if (const auto* exchange = std::get_if<Exchange>(&run.op->action)) {
    for (std::uint32_t i = 0; i < exchange->transfers.count; ++i) {
      const Transfer& t = run.block->transfers[exchange->transfers.first + i];
      const Rank partner = groups_[index(t.group)].ranks[index(t.peer)];
      issued.tags.push_back(tag(exchange_stream + t.channel, transfers_[{t.send, t.channel, partner}]++));
    }
  }
}

}  // namespace orrery
