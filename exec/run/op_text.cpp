#include "exec/run/op_text.hpp"

namespace orrery {
namespace {

std::string rank_list(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += " " + std::to_string(index(r));
  return text;
}

/// The op's action as a text, with the ranks that it reaches.
std::string action_text(const Program& program, Rank rank, const OpRun& run) {
  const Op& op = *run.op;
  if (const auto* compute = std::get_if<Compute>(&op.action)) {
    return std::string(name_of(run.block->kernels[compute->kernel].kind));
  }
  if (const auto* collective = std::get_if<Collective>(&op.action)) {
    return std::string(name_of(collective->kind)) + " over ranks" +
           rank_list(group_ranks(program[collective->group], program.mesh, rank));
  }
  if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
    std::string text = "exchange";
    for (std::uint32_t i = 0; i < exchange->transfers.count; ++i) {
      const Transfer& t = run.block->transfers[exchange->transfers.first + i];
      const Rank peer = group_ranks(program[t.group], program.mesh, rank)[index(t.peer)];
      text += std::string(i > 0 ? "," : "") + (t.send ? " send to" : " receive from") + " rank " +
              std::to_string(index(peer));
    }
    return text;
  }
  if (std::holds_alternative<Copy>(op.action)) return "copy";
  if (const auto* alloc = std::get_if<Alloc>(&op.action)) return "alloc " + program[alloc->what].name;
  return "free " + program[std::get<Free>(op.action).what].name;
}

}  // namespace

std::string op_text(const Program& program, Rank rank, bool setup, std::uint32_t id) {
  const RankClass& list = program.classes[class_of(program, rank)];
  std::string text = (setup ? "setup op " : "op ") + std::to_string(id);
  for_each_op(program, setup ? list.setup : list.step, [&](const OpRun& run) {
    if (index(run.id) != id) return;
    text += " (" + action_text(program, rank, run) + ", op " + std::to_string(run.op_index) + " of " + run.block->name +
            ", layer " + std::to_string(run.layer) + ", microbatch " + std::to_string(run.microbatch) + ")";
  });
  return text;
}

std::string describe_rank(const Program& program, Rank rank, const RankProgress& progress) {
  const std::uint64_t step = progress.step.load(std::memory_order_relaxed);
  const auto name = [&](const std::atomic<std::uint32_t>& op, const char* none) {
    const std::uint32_t at = op.load(std::memory_order_relaxed);
    return at == LaneProgress::none ? std::string(none) : op_text(program, rank, step == 0, at);
  };
  std::string text = "rank " + std::to_string(index(rank)) + ": ";
  text += step == 0 ? "setup" : "step " + std::to_string(step);
  if (progress.lanes.empty()) {
    text += ", in " + name(progress.list.current, "no op");
    return text + "; completed " + name(progress.list.completed, "nothing");
  }
  text += ", issued up to " + name(progress.list.completed, "nothing");
  for (const LaneProgress& lane : progress.lanes) {
    text += "\n    lane " + std::string(name_of(lane.lane)) + ": in " + name(lane.current, "no op");
    text += "; completed " + name(lane.completed, "nothing");
  }
  return text;
}

}  // namespace orrery
