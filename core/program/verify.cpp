#include "core/program/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/program/program_text.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery {
namespace verifying {

std::string listing(const Program& program, BlockId id, std::uint32_t op) {
  constexpr std::uint32_t around = 3;
  const Block& block = program[id];
  const std::uint32_t first = op > around ? op - around : 0;
  const std::size_t last = std::min<std::size_t>(block.ops.size(), std::size_t{op} + around + 1);
  const auto texts = op_texts(program, block, std::span(block.ops).subspan(first, last - first));
  std::string out = fmt::format("block {} {}\n", block.name, name_of(block.pass));
  for (std::uint32_t i = first; i < last; ++i) {
    out += fmt::format("{:>5}: {}{}\n", i, texts[i - first], i == op ? "   <-- here" : "");
  }
  return out;
}

void Findings::add(std::string code, std::string message) {
  if (full()) return;
  Violation v;
  v.code = std::move(code);
  v.message = std::move(message);
  list_.push_back(std::move(v));
}

void Findings::add_at(std::string code, std::string message, BlockId block, std::uint32_t op) {
  if (full()) return;
  add(std::move(code), fmt::format("{} (block {}, op {})", message, (*program_)[block].name, op));
  list_.back().block = block;
  list_.back().op = op;
  // The text needs ids in bounds, which the layout check has not shown yet.
  if (list_.back().code != "program.layout") list_.back().listing = listing(*program_, block, op);
}

void Findings::add_run(std::string code, std::string message, Rank rank, bool setup, const OpRun& run) {
  if (full()) return;
  const std::uint32_t rank_class = class_of(*program_, rank);
  add(std::move(code),
      fmt::format("{} (rank {}, class {}, {}block {}, op {}, layer {}, microbatch {})", message, index(rank),
                  rank_class, setup ? "setup, " : "", run.block->name, run.op_index, run.layer, run.microbatch));
  Violation& v = list_.back();
  v.rank = rank;
  v.rank_class = rank_class;
  v.block = id_of(*program_, *run.block);
  v.op = run.op_index;
  v.layer = run.layer;
  v.microbatch = run.microbatch;
  v.listing = listing(*program_, *v.block, v.op);
}

}  // namespace verifying

std::string render(const Violation& v) {
  std::string out = fmt::format("error: {} [{}]\n", v.message, v.code);
  std::size_t from = 0;
  while (from < v.listing.size()) {
    const std::size_t end = std::min(v.listing.find('\n', from), v.listing.size());
    out += "  " + v.listing.substr(from, end - from) + "\n";
    from = end + 1;
  }
  return out;
}

std::string render(const std::vector<Violation>& all) {
  std::string out;
  for (const Violation& v : all) out += render(v);
  return out;
}

std::vector<Violation> verify(const Program& program, const WorkProgress& progress) {
  struct Part {
    void (*check)(verifying::Findings&);
    double share;  // of the time, roughly
  };
  constexpr Part parts[] = {
      {verifying::check_layout, 0.01},  {verifying::check_operands, 0.005}, {verifying::check_base, 0.005},
      {verifying::check_data, 0.43},    {verifying::check_gradients, 0.05}, {verifying::check_order, 0.25},
      {verifying::check_values, 0.2},   {verifying::check_scores, 0.01},    {verifying::check_pairs, 0.02},
      {verifying::check_targets, 0.01}, {verifying::check_norms, 0.01}};
  verifying::Findings findings(program, progress);
  double begin = 0.0;
  for (const Part& part : parts) {
    findings.part(begin, part.share);
    part.check(findings);
    if (!findings.empty()) break;  // later parts rely on this one
    begin += part.share;
  }
  return findings.take();
}

}  // namespace orrery
