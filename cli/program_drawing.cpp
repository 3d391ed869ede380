#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "cli/drawing.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/program/program_text.hpp"
#include "core/record/operation.hpp"

// Draws a Program as a picture that can be looked at. It shows in lines what each class of ranks does in a step, and
// beside it the blocks that the class runs, each block once, with its ops in a column for each lane. A real plan has
// hundreds of blocks and thousands of ops; those that run most are drawn, and the picture says what is left out.

namespace orrery {
namespace {

constexpr std::size_t most_ops = 160;   ///< drawn in all
constexpr std::size_t most_lines = 24;  ///< of one class's step
constexpr std::size_t most_classes = 4;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : escaped(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// Lines of a label, left-justified.
std::string lines_label(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& l : lines) {
    const std::string q = quoted(l);
    out += q.substr(1, q.size() - 2) + "\\l";
  }
  return "\"" + out + "\"";
}

/// The buffer that an op makes: the first that it writes or adds to.
std::string made_by(const Program& program, const Block& block, const Op& op) {
  for (std::uint32_t v = op.views.first; v < op.views.first + op.views.count; ++v) {
    const View& view = block.views[v];
    if (view.use != View::Use::read) return program[view.buffer].name;
  }
  return "";
}

/// The action of an op, in two or three short lines.
std::vector<std::string> lines_of(const Program& program, const Block& block, const Op& op) {
  std::vector<std::string> lines{name_of(operation_of(program, block, op))};
  if (const auto* compute = std::get_if<Compute>(&op.action)) {
    const Kernel& k = block.kernels[compute->kernel];
    std::string size = fmt::format("{} x {}", k.rows, k.columns);
    if (k.depth > 0) size += fmt::format(" x {}", k.depth);
    lines.push_back(std::move(size));
  } else if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
    lines.clear();
    for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count; ++t) {
      lines.emplace_back(block.transfers[t].send ? "send" : "receive");
    }
  }
  if (const std::string made = made_by(program, block, op); !made.empty()) lines.push_back("-> " + made);
  return lines;
}

bool takes_time(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

/// A block's name without the number of its stage: "send.hidden.stage*".
std::string name_of_all(const Block& block) {
  const std::size_t at = block.name.rfind(".stage");
  if (at == std::string::npos || at + 6 == block.name.size()) return block.name;
  const bool number = block.name.find_first_not_of("0123456789", at + 6) == std::string::npos;
  return number ? block.name.substr(0, at) + ".stage*" : block.name;
}

/// A key for blocks that look the same in the picture, from whatever stage.
std::string look_of(const Program& program, const Block& block) {
  std::string out = name_of_all(block);
  for (const Op& op : block.ops) {
    if (takes_time(op)) out += fmt::format("|{} {}", name_of(op.lane), fmt::join(lines_of(program, block, op), " "));
  }
  return out;
}

struct DrawnBlock {
  BlockId id{};
  std::uint64_t runs = 0;  ///< in a step of all classes
  std::vector<std::uint32_t> classes;
  std::size_t ops = 0;
};

/// Blocks of the step by their looks, those that run most often first.
std::vector<DrawnBlock> blocks_of(const Program& program) {
  std::vector<DrawnBlock> list;
  std::map<std::string, std::size_t> place;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const Slot& slot : program.classes[c].step) {
      const Block& block = program[slot.block];
      const auto [at, fresh] = place.emplace(look_of(program, block), list.size());
      if (fresh) {
        DrawnBlock d;
        d.id = slot.block;
        d.ops = static_cast<std::size_t>(std::count_if(block.ops.begin(), block.ops.end(), takes_time));
        list.push_back(d);
      }
      DrawnBlock& d = list[at->second];
      d.runs += slot.repeat;
      if (d.classes.empty() || d.classes.back() != c) d.classes.push_back(c);
    }
  }
  std::erase_if(list, [](const DrawnBlock& d) { return d.ops == 0; });  // allocations only
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.runs > b.runs; });
  return list;
}

std::string numbers_text(const std::vector<std::uint32_t>& numbers) {
  if (numbers.size() == 1) return fmt::format("{}", numbers[0]);
  const bool run = numbers.back() - numbers.front() + 1 == numbers.size();
  return run ? fmt::format("{} to {}", numbers.front(), numbers.back()) : fmt::format("{}", fmt::join(numbers, ", "));
}

/// A class's step, a line for each row of slots that run one block for one microbatch.
std::vector<std::string> step_lines(const Program& program, std::uint32_t rank_class) {
  struct Row {
    BlockId block{};
    std::uint32_t microbatch = 0;
    std::uint64_t runs = 0;
  };
  std::vector<Row> rows;
  for (const Slot& slot : program.classes[rank_class].step) {
    if (!rows.empty() && rows.back().block == slot.block && rows.back().microbatch == slot.microbatch) {
      rows.back().runs += slot.repeat;
    } else {
      rows.push_back({slot.block, slot.microbatch, slot.repeat});
    }
  }
  const std::size_t ranks = program.mesh.size() / program.classes.size();
  std::vector<std::string> lines{fmt::format("class {}: {}, as rank {}", rank_class, counted(ranks, "rank"),
                                             index(representative(program, rank_class)))};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.size() > most_lines && i == most_lines - 8) {
      const std::size_t left_out = rows.size() - most_lines;
      lines.push_back(fmt::format("   ... {} more", left_out));
      i += left_out;
    }
    std::string line = fmt::format("{}  microbatch {}", program[rows[i].block].name, rows[i].microbatch);
    if (rows[i].runs > 1) line += fmt::format("  x {}", rows[i].runs);
    lines.push_back(std::move(line));
  }
  return lines;
}

class Picture {
 public:
  explicit Picture(const Program& program) : program_(program) {}

  std::string draw() {
    out_ =
        "digraph program {\n  rankdir=TB;\n  compound=true;\n  newrank=true;\n  nodesep=0.15;\n  ranksep=0.2;\n"
        "  graph [fontname=\"Helvetica\", fontsize=12, style=rounded, color=gray60];\n"
        "  node [shape=box, fontname=\"Helvetica\", fontsize=9, margin=\"0.08,0.03\", height=0.2];\n"
        "  edge [arrowsize=0.5, color=gray40];\n";
    steps();
    std::vector<DrawnBlock> drawn;
    std::vector<DrawnBlock> listed;  // of one op, or beyond what is drawn
    std::size_t ops = 0;
    for (const DrawnBlock& d : blocks_of(program_)) {
      const bool fits = d.ops > 1 && (drawn.empty() || ops + d.ops <= most_ops);
      (fits ? drawn : listed).push_back(d);
      if (fits) ops += d.ops;
    }
    // Rows have a few blocks each, held below each other by invisible edges.
    constexpr std::size_t columns = 4;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      block(i, drawn[i]);
      const std::string above = i < columns ? "step0" : last_[i - columns];
      out_ += fmt::format("  {} -> {} [style=invis];\n", above, first_[i]);
    }
    if (!listed.empty()) list(listed);
    return out_ + "}\n";
  }

 private:
  void steps() {
    const auto classes = static_cast<std::uint32_t>(program_.classes.size());
    out_ += "  subgraph cluster_steps {\n    label=\"one step\";\n";
    std::uint32_t before = 0;
    for (std::uint32_t c = 0; c < std::min<std::uint32_t>(classes, most_classes); ++c) {
      // The first ones and the last are shown.
      const std::uint32_t shown = classes > most_classes && c + 1 == most_classes ? classes - 1 : c;
      out_ += fmt::format("    step{} [shape=note, label={}];\n", shown, lines_label(step_lines(program_, shown)));
      if (c > 0) out_ += fmt::format("    {{ rank=same; step{} -> step{} [style=invis]; }}\n", before, shown);
      before = shown;
    }
    if (classes > most_classes) {
      out_ += fmt::format("    more [shape=plaintext, label=\"classes {} to {} are not drawn\"];\n", most_classes - 1,
                          classes - 2);
    }
    out_ += "  }\n";
  }

  void block(std::size_t number, const DrawnBlock& drawn) {
    const Block& block = program_[drawn.id];
    const auto node = [&](std::size_t op) { return fmt::format("b{}_{}", number, op); };
    out_ += fmt::format("  subgraph cluster_{} {{\n    label={};\n", number, quoted(about(drawn)));
    std::map<std::size_t, std::vector<std::size_t>> lanes;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (takes_time(block.ops[i])) lanes[lane_number(block.ops[i].lane)].push_back(i);
    }
    for (const auto& [lane, ops] : lanes) {
      const Lane of = block.ops[ops.front()].lane;
      const bool compute = of.kind == LaneKind::compute;
      out_ += fmt::format("    subgraph cluster_{}_{} {{\n      label={}; color=gray85;\n", number, lane,
                          quoted(std::string(name_of(of))));
      for (std::size_t i = 0; i < ops.size(); ++i) {
        out_ += fmt::format("      {} [label={}, style=filled, fillcolor={}];\n", node(ops[i]),
                            lines_label(lines_of(program_, block, block.ops[ops[i]])), compute ? "white" : "lightblue");
        if (i > 0) out_ += fmt::format("      {} -> {} [weight=8];\n", node(ops[i - 1]), node(ops[i]));
      }
      out_ += "    }\n";
    }
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
        const Wait& wait = block.waits[w];
        if (wait.kind != Wait::Kind::op || !takes_time(block.ops[wait.op])) continue;
        if (block.ops[wait.op].lane == op.lane) continue;  // drawn as the lane's order
        out_ += fmt::format("    {} -> {} [style=dashed];\n", node(wait.op), node(i));
      }
    }
    out_ += "  }\n";
    first_.push_back(node(lanes.begin()->second.front()));
    last_.push_back(node(lanes.begin()->second.back()));
  }

  [[nodiscard]] std::string about(const DrawnBlock& d) const {
    return fmt::format("{}: {}, {} {}", name_of_all(program_[d.id]), counted(d.runs, "run"),
                       d.classes.size() == 1 ? "class" : "classes", numbers_text(d.classes));
  }

  void list(const std::vector<DrawnBlock>& blocks) {
    constexpr std::size_t most = 24;
    std::vector<std::string> lines{"blocks of one operation, and those that run least often:"};
    for (std::size_t i = 0; i < std::min(blocks.size(), most); ++i) {
      std::string line = about(blocks[i]);
      if (blocks[i].ops > 1) {
        line += fmt::format("; {} ops, not drawn", blocks[i].ops);
      } else {
        const Block& block = program_[blocks[i].id];
        const auto op = std::find_if(block.ops.begin(), block.ops.end(), takes_time);
        line += fmt::format("; {}", fmt::join(lines_of(program_, block, *op), " "));
      }
      lines.push_back(std::move(line));
    }
    if (blocks.size() > most) lines.push_back(fmt::format("... {} more", blocks.size() - most));
    lines.emplace_back("orrery show program PLAN lists them all.");
    out_ += fmt::format("  listed [shape=note, label={}];\n", lines_label(lines));
  }

  const Program& program_;
  std::string out_;
  std::vector<std::string> first_, last_;  ///< nodes of the drawn blocks
};

}  // namespace

std::string dot_of(const Program& program) { return Picture(program).draw(); }

}  // namespace orrery
