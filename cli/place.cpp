#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/drawing.hpp"
#include "cli/fabric.hpp"
#include "cli/interrupt.hpp"
#include "cli/placement_text.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/placement.hpp"
#include "sim/des/simulate.hpp"
#include "sim/memory/fit.hpp"
#include "sim/net/cluster_fabric.hpp"
#include "sim/net/import/nccl_channels.hpp"

namespace orrery {
namespace {

class PlaceVerb final : public Verb {
 public:
  const char* name() const override { return "place"; }
  const char* summary() const override { return "find where each rank of a plan sits best on a fabric's wires"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.option("--fabric", fabric_, "the wires: a name or a .toml file; default: what the cluster's levels promise");
    c.option("--rings", rings_,
             "NCCL's graph (NCCL_GRAPH_DUMP_FILE) or log, along whose rings of GPUs neighbouring ranks are tried");
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    c.option(
        "--routes", routes_,
        "which of several ways a message takes through the fabric: by-destination (the default), hashed, rail-local");
    c.option("--tries", tries_, "largest number of orders of axes to try, and then of changes of the best one",
             {1, 1'000'000});
    c.option("--exact", exact_, "try every placement if at most this number of them differ", {0, 10'000'000});
    c.option("--seed", seed_, "seed of the changes and of hashed routes",
             {0, std::numeric_limits<std::uint64_t>::max()});
    c.option("--draw", draw_, "draw the fabric under the placement found (.svg, .png, .pdf, .dot), by load");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the plan with the placement found here");
    c.examples(
        "  orrery place plan.toml --fabric dgx-h100-superpod -o placed.toml\n"
        "  orrery place llama-3-70b-8-dgx-h100 --fabric dgx-h100-superpod --routes rail-local\n"
        "  orrery place plan.toml --fabric mine.toml --draw loads.svg --json\n"
        "  orrery place plan.toml --fabric dgx-1v --rings graph.xml\n"
        "Ctrl-C shows the best placement so far.");
  }

  int run() override {
    keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output, draw_});
    const LoadedPlan loaded = load_plan(plan_, flags_, cluster_);
    const Fabric fabric = fabric_ ? fabric_for_cluster(library_of(flags_), *fabric_, *loaded.run.cluster)
                                  : Fabric(cluster_fabric(*loaded.run.cluster));
    if (draw_) require_drawing(*draw_, fabric);
    require_output(flags_);
    const FabricRoutes routes{&fabric, path_rule_of(routes_), seed_};
    Progress progress;
    PlacementOptions options;
    options.tries = tries_;
    options.most_exact = exact_;
    options.seed = seed_;
    if (rings_) options.rings = rings_of(*rings_, *loaded.run.cluster);
    options.report = [&](std::uint64_t done, std::uint64_t total, Seconds best) {
      progress.show("place", done, total, {}, "best " + short_text(best));
    };
    options.cancelled = &interrupted();
    catch_interrupt();
    std::optional<PlacementSearch> result;
    try {
      result = search_placement(loaded.run, loaded.program, loaded.calibration.calibration, routes, options);
    } catch (const SimulationCancelled&) {
      progress.clear();
      print("Interrupted before the plan itself was simulated.\n");
      return status_no;
    }
    progress.clear();
    const MemoryVerdict memory = verdict_of(loaded, result->found);
    write_output(flags_, plan_text(loaded, result->found));
    if (draw_) draw_loads(loaded, fabric, routes, result->found);
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json out = placement_json(routes, loaded.run, *result);
      out["software"] = describe(loaded.calibration.software);
      out["fits"] = memory.fits;
      print_json(out);
    } else {
      print(
          heading_text(loaded.run, loaded.calibration) + resolutions_text(loaded.resolved) +
          fmt::format("fabric: {}\n\n", escaped(fabric.spec().name)) +
          placement_text(routes, loaded.program.mesh.size(), *result) +
          (memory.fits ? "" : fmt::format("\n  It does not fit in memory: it needs at least {}.\n", text_of(memory))));
    }
    return result->cancelled || !memory.fits ? status_no : status_fine;
  }

 private:
  /// Each order of GPUs in which an importable file has rings, once.
  static std::vector<std::vector<std::uint32_t>> rings_of(const std::string& file, const ClusterSpec& cluster) {
    Diagnostics d;
    std::optional<std::string> text = read_text(file, d);
    require_none(d);
    const std::optional<ChannelFile> kind = channel_file_of(*text);
    if (!kind) {
      refuse(
          "cli.rings", fmt::format("{} is neither NCCL's graph nor a log of it", escaped(file)),
          {"NCCL_GRAPH_DUMP_FILE=graph.xml writes a graph; NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,GRAPH a log."});
    }
    const auto read = import_nccl_channels(*kind, std::move(*text), file, cluster.nodes, d);
    require_none(d);
    std::vector<std::vector<std::uint32_t>> out;
    for (const std::vector<std::uint32_t>& ring : read->rings) {
      if (ring.size() != cluster.devices_per_node && ring.size() != cluster.devices()) {
        refuse("cli.rings",
               fmt::format("the rings of {} pass neither the GPUs of one node nor all GPUs", escaped(file)),
               {fmt::format("They pass {} GPUs; a node of {} has {}, and all nodes have {}.", ring.size(),
                            escaped(cluster.name), cluster.devices_per_node, cluster.devices())});
      }
      std::vector<std::uint32_t> passed = ring;
      std::sort(passed.begin(), passed.end());
      for (std::uint32_t g = 0; g < passed.size(); ++g) {
        if (passed[g] == g) continue;
        refuse("cli.rings", fmt::format("a ring of {} leaves GPU {} out", escaped(file), g),
               {fmt::format("It passes {}.", fmt::join(ring, " "))});
      }
      if (std::find(out.begin(), out.end(), ring) == out.end()) out.push_back(ring);
    }
    if (out.empty()) {
      refuse("cli.rings", fmt::format("there are no rings in {}", escaped(file)),
             {"A graph of pattern 4 has them, and a log's lines \"Channel 00/04 : 0 3 2 1\"."});
    }
    return out;
  }

  static MemoryVerdict verdict_of(const LoadedPlan& loaded, const PlacedStep& step) {
    PlannedRun run = loaded.run;
    run.plan = step.plan;
    return memory_verdict(run, lower(run.model, run.workload, run.plan), loaded.calibration.calibration);
  }

  static std::string plan_text(const LoadedPlan& loaded, const PlacedStep& step) {
    PlannedRun run = loaded.run;
    run.plan = step.plan;
    return write_plan(run);
  }

  void draw_loads(const LoadedPlan& loaded, const Fabric& fabric, const FabricRoutes& routes,
                  const PlacedStep& step) const {
    PlannedRun run = loaded.run;
    run.plan = step.plan;
    const Program program = lower(run.model, run.workload, run.plan);
    const CostModel costs(*run.cluster, loaded.calibration.calibration, run.plan.mesh, run.plan.placement,
                          run.plan.collective_algorithm);
    const FabricTraffic traffic(routes, program, costs, run.plan.placement);
    write_drawing(*draw_, fabric, link_loads(step.traffic, traffic), step.step);
  }

  CommonFlags flags_;
  std::string plan_;
  std::optional<std::string> fabric_, rings_, cluster_, routes_, draw_;
  std::uint64_t tries_ = PlacementOptions{}.tries, exact_ = PlacementOptions{}.most_exact, seed_ = 0;
};

}  // namespace

std::unique_ptr<Verb> place_verb() { return std::make_unique<PlaceVerb>(); }

}  // namespace orrery
