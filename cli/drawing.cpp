#include "cli/drawing.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/dot_text.hpp"
#include "cli/report_text.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery {
namespace {

using dot::head;
using dot::in_quotes;
using dot::label;

}  // namespace

std::string dot_of(const ClusterSpec& c) {
  std::string out = fmt::format("graph {} {{\n{}", in_quotes(c.name), head);
  // Units of a level hang below the level's own node; many equal ones fold.
  constexpr std::uint32_t most_units = 8;
  int next = 0;
  // `first` is the unit's first device; the kind of its node is drawn.
  const auto draw_level = [&](auto&& self, std::size_t level, std::uint32_t first) -> int {
    const int id = next++;
    const std::uint32_t kind = kind_of_device(c, first);
    if (level == 0) {
      const DeviceSpec& device = device_of(c, kind);
      out += fmt::format("  n{} {};\n", id, label({device.name, short_text(device.memory)}));
      return id;
    }
    const NetworkLevel& l = c.levels[level - 1];
    const std::string figures =
        fmt::format("{} each way, {}", short_text(bandwidth_of(c, kind, level - 1)), short_text(l.latency));
    out += fmt::format("  n{} {};\n", id, label({l.name, figures}, "ellipse"));
    std::uint32_t unit = 1;
    for (std::size_t below = 0; below + 1 < level; ++below) unit *= c.levels[below].size;
    // Many units show as two, and the first of each other kind.
    std::vector<bool> seen(node_kinds(c), false);
    std::uint32_t shown = 0;
    for (std::uint32_t i = 0; i < l.size; ++i) {
      const std::uint32_t of = kind_of_device(c, first + i * unit);
      if (l.size > most_units && i >= 2 && seen[of]) continue;
      seen[of] = true;
      ++shown;
      out += fmt::format("  n{} -- n{};\n", id, self(self, level - 1, first + i * unit));
    }
    if (shown < l.size) {
      const int more = next++;
      out += fmt::format("  n{} [shape=plaintext, label=\"... {} in all\"];\n  n{} -- n{} [style=dotted];\n", more,
                         l.size, id, more);
    }
    return id;
  };
  draw_level(draw_level, c.levels.size(), 0);
  return out + "}\n";
}

std::string dot_of(const PlannedRun& run) {
  const Plan& plan = run.plan;
  std::string out =
      fmt::format("digraph {} {{\n  rankdir=LR;\n{}", in_quotes(plan.name.empty() ? "plan" : plan.name), head);
  const std::uint32_t stages = plan.mesh.size(Axis::pipeline);
  const std::uint32_t replicas = plan.mesh.size(Axis::data);
  const std::uint32_t tensor = plan.mesh.size(Axis::tensor);
  constexpr std::uint32_t most = 8;
  for (std::uint32_t d = 0; d < std::min(replicas, most); ++d) {
    out += fmt::format("  subgraph cluster_{} {{\n    label=\"replica {} of {}\";\n", d, d, replicas);
    for (std::uint32_t s = 0; s < std::min(stages, most); ++s) {
      const Rank first = plan.mesh.moved(plan.mesh.moved(Rank{0}, Axis::pipeline, s), Axis::data, d);
      const Rank last = plan.mesh.moved(first, Axis::tensor, tensor - 1);
      std::vector<std::string> lines{fmt::format("stage {}", s)};
      if (plan.stage_layers) {
        const StageMap map = stage_map(plan);
        std::string layers;
        for (std::uint32_t c = 0; c < map.chunks; ++c) {
          layers += fmt::format("{}{}", c == 0 ? "" : " + ", (*plan.stage_layers)[map.stage(s, c)]);
        }
        lines.push_back(layers + " layers");
      }
      lines.push_back(tensor == 1 ? fmt::format("rank {}", index(first))
                                  : fmt::format("{} tensor ranks {}..{}", tensor, index(first), index(last)));
      out += fmt::format("    s{}_{} {};\n", d, s, label(lines));
      if (s > 0) out += fmt::format("    s{}_{} -> s{}_{};\n", d, s - 1, d, s);
    }
    out += "  }\n";
  }
  if (replicas > most || stages > most) {
    out += fmt::format("  more [shape=plaintext, label=\"{} replicas and {} stages in all\"];\n", replicas, stages);
  }
  return out + "}\n";
}

namespace {

/// A folder of our own, which is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "orrery-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(fmt::format("cannot create a folder like {}: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::string draw(const std::string& text, const std::string& format) {
  const TemporaryFolder folder;
  const std::string graph = (folder.path() / "graph.dot").string();
  const std::string picture = (folder.path() / "graph.out").string();
  std::ofstream file(graph, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}: {}", graph, std::strerror(errno)));
  std::vector<std::string> words{"dot", "-T" + format, "-o" + picture, graph};
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int failure = posix_spawnp(&child, "dot", nullptr, nullptr, arguments.data(), environ); failure != 0) {
    throw Error(fmt::format("cannot start dot ({}); it comes with the package graphviz", std::strerror(failure)));
  }
  int state = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &state, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended != child || !WIFEXITED(state) || WEXITSTATUS(state) != 0) throw Error("dot could not draw the graph");
  std::ifstream result(picture, std::ios::binary);
  std::string drawn(std::istreambuf_iterator<char>(result), {});
  if (!result || drawn.empty()) throw Error("dot drew nothing");
  return drawn;
}

std::string format_of(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  for (const char* known : {".svg", ".png", ".pdf", ".dot"}) {
    if (extension == known) return extension.substr(1);
  }
  return extension == ".gv" ? "dot" : "";
}

}  // namespace orrery
