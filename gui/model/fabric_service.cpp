#include "gui/model/fabric_service.hpp"

#include <fmt/format.h>

#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "sim/des/step_traffic.hpp"
#include "sim/net/cluster_fabric.hpp"

namespace orrery::gui {
namespace {

std::optional<FabricSpec> read_fabric(const Library& library, const std::string& name, Diagnostics& d) {
  const auto file = library.fabric(name, d);
  const auto text = file ? read_text(*file, d) : std::nullopt;
  return text ? parse_fabric(*text, file->string(), d) : std::nullopt;
}

bool has_place(const FabricSpec& f, const ClusterSpec& c) { return f.gpus() >= c.devices() && same_boxes(f, c); }

Fabric fabric_of(const FabricRequest& request, const Library& library) {
  const ClusterSpec& cluster = *request.prediction->run.cluster;
  if (request.fabric.empty()) return Fabric(cluster_fabric(cluster));
  Diagnostics d;
  auto spec = read_fabric(library, request.fabric, d);
  if (!spec) throw Error(render(d));
  if (!has_place(*spec, cluster)) {
    throw Error(fmt::format("{} has {} nodes of {} devices, and the cluster {} of {}.", request.fabric, spec->nodes,
                            spec->node.gpus, cluster.nodes, cluster.devices_per_node));
  }
  return Fabric(std::move(*spec));
}

}  // namespace

std::vector<std::string> fabrics_for(const Library& library, const ClusterSpec& cluster) {
  std::vector<std::string> out;
  for (const std::string& name : library.fabrics()) {
    Diagnostics ignored;
    const auto spec = read_fabric(library, name, ignored);
    if (spec && has_place(*spec, cluster)) out.push_back(name);
  }
  return out;
}

FabricShown show_fabric(const FabricRequest& request, const Library& library) {
  const Prediction& p = *request.prediction;
  const Fabric fabric = fabric_of(request, library);
  if (fabric.links() > most_drawn_links) {
    throw Error(fmt::format("The fabric has {} links; at most {} are drawn.", with_commas(fabric.links()),
                            with_commas(most_drawn_links)));
  }
  FabricShown out{request.prediction, make_picture(fabric), request.fabric, request.within};
  const Plan& plan = p.run.plan;
  const CostModel costs(*p.run.cluster, p.prices->calibration, plan.mesh, plan.placement, plan.collective_algorithm);
  const FabricRoutes routes{&fabric};
  const FabricTraffic traffic(routes, *p.program, costs, plan.placement);
  if (request.within && request.step) {
    const std::vector<AxisTraffic> sent{
        {"", traffic_within(*p.program, request.step->simulation.trace, *request.within, traffic)}};
    set_loads(out.picture, fabric, link_loads(sent, traffic), static_cast<double>(request.within->length()) * 1e-12);
  } else {
    set_loads(out.picture, fabric, link_loads(StepTraffic(*p.program).between(traffic), traffic),
              p.report.step_time.base());
  }
  return out;
}

FabricService::FabricService(Library library, QObject* parent)
    : QObject(parent),
      worker_([this, library = std::move(library)](const FabricRequest& request, const std::atomic<bool>& outdated) {
        const auto post = [this](auto&& told) {
          QMetaObject::invokeMethod(this, std::forward<decltype(told)>(told), Qt::QueuedConnection);
        };
        try {
          auto done = std::make_shared<const FabricShown>(show_fabric(request, library));
          if (!outdated) post([this, done] { Q_EMIT shown(done); });
        } catch (const std::exception& e) {
          post([this, why = QString::fromStdString(e.what())] { Q_EMIT failed(why); });
        }
      }) {}

void FabricService::request(FabricRequest request) { worker_.submit(std::move(request)); }

}  // namespace orrery::gui
