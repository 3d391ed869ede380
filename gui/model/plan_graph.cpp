#include "gui/model/plan_graph.hpp"

#include <fmt/format.h>

#include <QCoreApplication>
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "core/base/units_text.hpp"
#include "core/plan/schedule_rules.hpp"
#include "sim/cost/prices.hpp"

namespace orrery::gui {
namespace {

std::string bytes_text(double bytes) { return short_text(Bytes::of(bytes)); }

std::string axes_of(const Group& group) {
  std::string out;
  for (const Axis axis : group.axes) out += (out.empty() ? "" : " + ") + std::string(name_of(axis));
  return out;
}

/// The bytes that one rank of the class sends, and the collectives in which it takes part.
std::vector<GroupTraffic> traffic_of(const Program& program, std::uint32_t rank_class) {
  const Rank rank = representative(program, rank_class);
  const std::uint32_t stage = program.mesh.coordinate(rank, Axis::pipeline);
  // Collectives come before messages, and groups stand in the order of the Program.
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, GroupTraffic> found;
  for (const Slot& slot : program.classes[rank_class].step) {
    const Block& block = program[slot.block];
    for (const Op& op : block.ops) {
      if (const auto* c = std::get_if<Collective>(&op.action)) {
        const Group& group = program[c->group];
        const std::uint32_t members = group_size(group, program.mesh);
        if (members == 1 || !peer_of(group, program.mesh, rank)) continue;
        GroupTraffic& t = found[{false, index(c->group), static_cast<std::uint32_t>(c->kind)}];
        t.stage = stage;
        t.group = axes_of(group);
        t.members = members;
        t.kind = name_of(c->kind);
        t.count += slot.repeat;
        t.bytes += static_cast<double>(slot.repeat) * static_cast<double>(payload_bytes(program, block, op));
      } else if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
        for (std::uint32_t i = 0; i < exchange->transfers.count; ++i) {
          const Transfer& transfer = block.transfers[exchange->transfers.first + i];
          const Rank other = peer_rank(program, program[transfer.group], transfer.peer, rank);
          if (!transfer.send || other == rank) continue;
          const std::uint32_t to = program.mesh.coordinate(other, Axis::pipeline);
          GroupTraffic& t = found[{true, to, 0}];
          t.stage = stage;
          t.group = axes_of(program[transfer.group]);
          t.members = 2;
          t.kind = "send";
          t.to = to;
          t.count += slot.repeat;
          const View& view = block.views[op.views.first + transfer.view];
          t.bytes +=
              static_cast<double>(slot.repeat) * static_cast<double>(view.count * size_of(program[view.buffer].dtype));
        }
      }
    }
  }
  std::vector<GroupTraffic> out;
  for (auto& [key, t] : found) out.push_back(std::move(t));
  return out;
}

/// The layers of a pipeline rank, over all its virtual stages.
std::vector<std::uint32_t> layers_of(const Plan& plan) {
  const StageMap map = stage_map(plan);
  std::vector<std::uint32_t> out(plan.mesh.size(Axis::pipeline));
  for (std::uint32_t s = 0; plan.stage_layers && s < plan.stage_layers->size(); ++s) {
    for (std::uint32_t rank = 0; rank < out.size(); ++rank) {
      for (std::uint32_t chunk = 0; chunk < map.chunks; ++chunk) {
        if (map.stage(rank, chunk) == s) out[rank] += (*plan.stage_layers)[s];
      }
    }
  }
  return out;
}

/// Whether stages are alike except for their numbers: the same groups send as much, to stages as far away.
bool alike(const std::vector<GroupTraffic>& a, const std::vector<GroupTraffic>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const GroupTraffic& x, const GroupTraffic& y) {
    const auto away = [](const GroupTraffic& t) { return t.to ? std::int64_t{*t.to} - std::int64_t{t.stage} : 0; };
    return x.group == y.group && x.kind == y.kind && x.count == y.count && x.bytes == y.bytes && away(x) == away(y);
  });
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string stage_label(const StageNode& s) {
  const std::string name =
      s.first == s.last ? fmt::format("stage {}", s.first) : fmt::format("stages {} to {}", s.first, s.last);
  return fmt::format("{}\n{} layers, {} ranks\n{}", name, s.layers, s.ranks,
                     short_text(Bytes::of(static_cast<double>(s.peak))));
}

/// Words of a line of dot's plain form; quoted ones hold spaces.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::string word;
  bool quoted = false, any = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '\\' && i + 1 < line.size()) {
      const char next = line[++i];
      word += next == 'n' ? '\n' : next;
    } else if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (c == ' ' && !quoted) {
      if (any || !word.empty()) out.push_back(std::move(word));
      word.clear();
      any = false;
    } else {
      word += c;
    }
  }
  if (any || !word.empty()) out.push_back(std::move(word));
  return out;
}

}  // namespace

PlanGraph make_plan_graph(const Prediction& p) {
  PlanGraph out;
  const Program& program = *p.program;
  const std::uint32_t stages = program.mesh.size(Axis::pipeline);
  const std::vector<std::uint32_t> layers = layers_of(p.run.plan);
  std::vector<GroupTraffic> last;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const Rank rank = program.mesh.moved(Rank{0}, Axis::pipeline, stage);
    std::vector<GroupTraffic> traffic = traffic_of(program, class_of(program, rank));
    for (GroupTraffic& t : traffic) t.stage = stage;
    const auto memory = std::find_if(p.report.memory_by_stage.begin(), p.report.memory_by_stage.end(),
                                     [&](const StageMemory& m) { return m.stage == stage; });
    const std::uint64_t peak = memory == p.report.memory_by_stage.end() ? 0 : memory->peak;
    if (!out.stages.empty() && out.stages.back().layers == layers[stage] && alike(last, traffic)) {
      out.stages.back().last = stage;
      out.stages.back().peak = std::max(out.stages.back().peak, peak);
      continue;
    }
    out.stages.push_back({stage, stage, static_cast<std::uint32_t>(program.mesh.size() / stages), layers[stage], peak});
    out.traffic.insert(out.traffic.end(), traffic.begin(), traffic.end());
    last = std::move(traffic);
  }
  return out;
}

TableContent plan_graph_table(const PlanGraph& graph) {
  const auto tr = [](const char* text) { return QCoreApplication::translate("orrery::gui", text); };
  const auto q = [](const std::string& text) { return QString::fromStdString(text); };
  TableContent out;
  out.headers = {tr("Stage"), tr("Group"), tr("Ranks"), tr("Operation"), tr("Count"), tr("Bytes of a rank")};
  for (std::size_t i = 0; i < graph.traffic.size(); ++i) {
    const GroupTraffic& t = graph.traffic[i];
    const auto at = std::find_if(graph.stages.begin(), graph.stages.end(),
                                 [&](const StageNode& s) { return s.first <= t.stage && t.stage <= s.last; });
    const std::string stage =
        at->first == at->last ? fmt::to_string(t.stage) : fmt::format("{} to {}", at->first, at->last);
    const QString kind = t.to ? tr("to stage %1").arg(*t.to) : q(t.kind);
    out.rows.push_back({i,
                        {{q(stage), static_cast<double>(t.stage)},
                         {q(t.group)},
                         {q(fmt::to_string(t.members)), static_cast<double>(t.members)},
                         {kind},
                         {q(fmt::to_string(t.count)), static_cast<double>(t.count)},
                         {q(bytes_text(t.bytes)), t.bytes}}});
  }
  return out;
}

std::string dot_of(const PlanGraph& graph) {
  // Stages stand below each other, with the groups of each in a row beside it.
  std::string out =
      "digraph plan {\n  nodesep=0.2;\n  ranksep=0.45;\n  node [shape=box, fontname=\"DejaVu Sans\", fontsize=11];\n  "
      "edge [fontname=\"DejaVu Sans\", fontsize=11];\n";
  const auto node_of = [&](std::uint32_t stage) {
    for (std::size_t n = 0; n < graph.stages.size(); ++n) {
      if (graph.stages[n].first <= stage && stage <= graph.stages[n].last) return n;
    }
    return std::size_t{0};
  };
  for (std::size_t n = 0; n < graph.stages.size(); ++n) {
    const StageNode& stage = graph.stages[n];
    out += fmt::format("  s{} [label=\"{}\", group=stages];\n", n, escaped(stage_label(stage)));
    // Stages stand below each other in their order, because side by side they are too wide to be read.
    if (n > 0) out += fmt::format("  s{} -> s{} [style=invis, weight=100];\n", n - 1, n);
    std::vector<std::pair<std::string, std::string>> groups;  // with what they do
    for (const GroupTraffic& t : graph.traffic) {
      if (t.stage != stage.first) continue;
      if (t.to) {
        // Every stage of the node sends as far as its first does: to a neighbour in the node, or out of it.
        std::set<std::size_t> to;
        for (std::uint32_t from = stage.first; from <= stage.last; ++from) to.insert(node_of(*t.to + from - t.stage));
        if (to.size() > 1) to.erase(n);  // what leaves it says what goes between its stages
        for (const std::size_t node : to) {
          out += fmt::format("  s{} -> s{} [label=\"{}\", constraint=false];\n", n, node,
                             escaped(fmt::format("{} in {}", bytes_text(t.bytes), with_commas(t.count))));
        }
        continue;
      }
      const std::string name = fmt::format("{} x {}", t.group, t.members);
      if (groups.empty() || groups.back().first != name) groups.emplace_back(name, "");
      groups.back().second += fmt::format("\n{}: {} in {}", t.kind, bytes_text(t.bytes), with_commas(t.count));
    }
    std::string row = fmt::format("s{}", n);
    std::string last = row;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::string name = fmt::format("s{}g{}", n, g);
      out += fmt::format("  {} [label=\"{}\"];\n  {} -> {};\n", name, escaped(groups[g].first + groups[g].second), last,
                         name);
      row += "; " + name;
      last = name;
    }
    out += fmt::format("  {{ rank=same; {}; }}\n", row);
  }
  return out + "}\n";
}

std::optional<std::size_t> stage_node(const std::string& name) {
  if (!name.starts_with('s') || name.find('g') != std::string::npos) return std::nullopt;
  std::size_t out = 0;
  const auto [end, failure] = std::from_chars(name.data() + 1, name.data() + name.size(), out);
  return failure == std::errc{} ? std::optional(out) : std::nullopt;
}

std::optional<GraphLayout> read_plain(const std::string& text) {
  GraphLayout out;
  std::istringstream in(text);
  bool begun = false;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> w = words_of(line);
    if (w.empty()) continue;
    const auto number = [&](std::size_t i) {
      std::istringstream value(i < w.size() ? w[i] : "");
      value.imbue(std::locale::classic());
      double n = 0.0;
      value >> n;
      return n;
    };
    if (w[0] == "graph") {
      if (w.size() < 4) return std::nullopt;
      begun = true;
      out.width = number(2);
      out.height = number(3);
    } else if (w[0] == "node") {
      if (w.size() < 7) return std::nullopt;
      out.nodes.push_back({w[1], w[6], number(2), number(3), number(4), number(5)});
    } else if (w[0] == "edge") {
      if (w.size() < 4) return std::nullopt;
      GraphLayout::Edge edge{w[1], w[2], "", {}, 0, 0};
      const double points = number(3);
      if (!(points >= 0.0) || points > 1e6 || w.size() < 4 + 2 * static_cast<std::size_t>(points)) return std::nullopt;
      const auto count = static_cast<std::size_t>(points);
      for (std::size_t i = 0; i < count; ++i) edge.curve.emplace_back(number(4 + 2 * i), number(5 + 2 * i));
      const std::size_t rest = 4 + 2 * count;
      if (std::find(w.begin() + static_cast<std::ptrdiff_t>(rest), w.end(), "invis") != w.end()) continue;
      if (w.size() >= rest + 5) {  // label, its place, style, colour
        edge.label = w[rest];
        edge.label_x = number(rest + 1);
        edge.label_y = number(rest + 2);
      }
      out.edges.push_back(std::move(edge));
    }
  }
  return begun ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace orrery::gui
