#include "planner/study/fabric_step.hpp"

#include "core/base/diagnostics.hpp"
#include "core/base/toml_reader.hpp"

namespace orrery {

FabricSpec study_fabric(const Library& library, const std::string& name) {
  Diagnostics d;
  const std::optional<std::filesystem::path> file = library.fabric(name, d);
  std::optional<std::string> text = file ? read_text(*file, d) : std::nullopt;
  std::optional<FabricSpec> spec = text ? parse_fabric(*std::move(text), file->string(), d) : std::nullopt;
  if (!spec || !d.empty()) throw Error("a study lacks its data\n" + render(d));
  return *std::move(spec);
}

FabricStep step_over(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                     const Calibration& calibration, Plan plan, const Fabric& fabric, PathRule rule,
                     std::uint64_t seed) {
  FabricStep out{priced(model, workload, cluster, calibration, std::move(plan)), {}};
  const Plan& resolved = out.plan.run.plan;
  const CostModel costs(cluster, calibration, resolved.mesh, resolved.placement, resolved.collective_algorithm);
  SimulateOptions options;
  options.trace = SimulateOptions::Ranks::none;
  options.fabric = FabricRoutes{&fabric, rule, seed};
  out.simulation = simulate(out.plan.run, out.plan.program, costs, options);
  return out;
}

Bytes carried_by(const Fabric& fabric, const Simulation& simulation, const std::string& vertex) {
  Bytes sum;
  for (const LinkLoad& l : simulation.links) {
    if (fabric.name(l.link).find(vertex) != std::string::npos) sum = sum + l.carried;
  }
  return sum;
}

}  // namespace orrery
