#include "core/plan/mixture_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/base/counted.hpp"
#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/routing.hpp"

namespace orrery {
namespace {

class Check {
 public:
  Check(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out)
      : plan_(plan), model_(model), workload_(workload), out_(out) {}

  void dense() {
    const std::uint32_t n = plan_.mesh.size(Axis::expert);
    if (n > 1) {
      error("mesh.expert", "expert-dense", "the model has no experts to distribute",
            {fmt::format("expert is {}; {} is dense.", n, name()), "Leave expert out of [mesh], or raise data."});
    }
    if (plan_.expert_folding != ExpertFolding::none) {
      error("plan.expert_folding", "expert-folding-dense", "the model has no experts to fold over other axes",
            {fmt::format("expert_folding is \"{}\"; {} is dense.", name_of(plan_.expert_folding), name()),
             "Leave out expert_folding."});
    }
    if (plan_.expert_dispatch != ExpertDispatch::all_to_all) {
      error("plan.expert_dispatch", "expert-dispatch-dense", "the model has no experts to bring tokens to",
            {fmt::format("expert_dispatch is \"{}\"; {} is dense.", name_of(plan_.expert_dispatch), name()),
             "Leave out expert_dispatch."});
    }
    if (workload_.routing != Routing{}) {
      error("workload.routing", "routing-dense", "the workload routes tokens to experts, but the model has none",
            {fmt::format("{} is dense.", name()), "Leave out [workload.routing]."});
    }
  }

  void mixture(const Mixture& m) {
    folding();
    dispatch();
    axes(m);
    routing(m);
  }

 private:
  void error(const char* key, const char* code, std::string message, std::vector<std::string> details) {
    out_.error(plan_.origin, key, std::string("plan.") + code, std::move(message), std::move(details));
  }
  [[nodiscard]] std::string name() const { return model_.name.empty() ? "the model" : model_.name; }

  /// What tensor ranks hold of experts follows from how they cut layers and tokens.
  void folding() {
    if (plan_.expert_folding == ExpertFolding::none) return;
    if (plan_.tensor != TensorAlgorithm::one_d) {
      error("plan.expert_folding", "expert-folding-grid", "a grid of ranks cannot fold experts over other axes",
            {fmt::format("tensor is \"{}\"; ranks along columns hold slices of an expert, and their tokens have "
                         "features of all rows.",
                         name_of(plan_.tensor)),
             "Set tensor to \"1d\", or leave out expert_folding."});
    } else if (folds_tensor(plan_) && !plan_.sequence_parallel) {
      error("plan.expert_folding", "expert-folding-sequence",
            "experts fold over the tensor axis only with sequence parallelism",
            {fmt::format("tensor is {}, and without it all {} ranks hold the same tokens and would send each {} times.",
                         plan_.mesh.size(Axis::tensor), plan_.mesh.size(Axis::tensor), plan_.mesh.size(Axis::tensor)),
             "Set sequence_parallel to true, or leave tensor out of expert_folding."});
    }
  }

  void dispatch() {
    if (plan_.expert_dispatch == ExpertDispatch::all_to_all || plan_.tensor == TensorAlgorithm::one_d) return;
    error("plan.expert_dispatch", "expert-dispatch-grid", "a grid of ranks cannot gather all tokens for experts",
          {fmt::format("tensor is \"{}\"; a row of ranks gathers features of tokens first, and tokens of other ranks "
                       "are not gathered beside them.",
                       name_of(plan_.tensor)),
           "Set tensor to \"1d\", or leave out expert_dispatch."});
  }

  void axes(const Mixture& m) {
    const AxisList cut = expert_axes(plan_);
    const auto n = static_cast<std::uint32_t>(size(plan_.mesh, cut));
    const bool grid = plan_.tensor != TensorAlgorithm::one_d;
    const Axis axis = grid ? Axis::column : Axis::tensor;
    const std::uint32_t t = plan_.mesh.size(axis);
    if (m.experts % n != 0 && cut.count > 1) {
      std::vector<std::string> sizes;
      for (const Axis each : cut) sizes.push_back(fmt::format("{} {}", name_of(each), plan_.mesh.size(each)));
      error("plan.expert_folding", "expert-folding", "the ranks with other experts do not divide the number of experts",
            {fmt::format("{} make {} ranks; experts is {}, and {} / {} leaves {}.", fmt::join(sizes, " x "), n,
                         m.experts, m.experts, n, m.experts % n),
             nearest_divisors(m.experts, n, "numbers of such ranks")});
    } else if (m.experts % n != 0) {
      error("mesh.expert", "expert-experts", "the expert size does not divide the number of experts",
            {fmt::format("experts is {}, and {} / {} leaves {}.", m.experts, m.experts, n, m.experts % n),
             nearest_divisors(m.experts, n, "expert sizes")});
    }
    const bool whole = folds_tensor(plan_);  // experts; shared ones are cut
    if ((!whole && m.ffn % t != 0) || m.shared_ffn % t != 0) {
      const bool routed = !whole && m.ffn % t != 0;
      const std::uint64_t ffn = routed ? m.ffn : m.shared_ffn;
      const std::string key = "mesh." + std::string(name_of(axis));
      error(key.c_str(), "expert-ffn",
            fmt::format("the {} size does not divide {}", name_of(axis),
                        routed ? "the width of an expert" : "the shared experts' width"),
            {fmt::format("{} is {}, and {} / {} leaves {}.", routed ? "mixture.ffn" : "mixture.shared_ffn", ffn, ffn, t,
                         ffn % t),
             nearest_divisors(
                 std::gcd(std::gcd(std::gcd(whole ? 0 : m.ffn, m.shared_ffn), std::gcd(model_.heads, model_.kv_heads)),
                          grid ? std::gcd(model_.hidden, model_.ffn) : 0),
                 t, grid ? "sides" : "tensor sizes")});
    }
  }

  void routing(const Mixture& m) {
    const Routing& r = workload_.routing;
    if (r.kind == Routing::Kind::learned && m.score_bias) {
      error("workload.routing.kind", "routing-learned", "learned routing with a score bias is not supported",
            {fmt::format("No gradient moves the score biases of {}, and plans have no other step for them.", name()),
             "Set score_bias to false, or state the routing: balanced, skewed, recorded."});
    }
    if (r.kind != Routing::Kind::learned && m.per_token % expert_groups(m).per_token != 0) {
      error("workload.routing.kind", "routing-groups",
            "stated routing needs the experts of a token to be a multiple of its groups",
            {fmt::format("A token of {} visits {} experts in {} groups, and {} / {} leaves {}.", name(), m.per_token,
                         m.groups_per_token, m.per_token, m.groups_per_token, m.per_token % m.groups_per_token),
             "Nearest valid: learned."});
    }
    const std::uint64_t s = workload_.sequence_length;
    const std::uint64_t pieces = routed_pieces(plan_);
    const std::uint64_t group = routing_group(as_routed(workload_, plan_));
    if (s % pieces == 0 && (s / pieces) % group != 0) {
      error("workload.routing.group", "routing-group", "the routing group does not divide the positions of a rank",
            {fmt::format("sequence {}is {}, and {} / {} leaves {}.",
                         pieces == 1 ? ""
                                     : fmt::format("{} / {} pieces of {} ", s, pieces,
                                                   !folds_tensor(plan_)                  ? "the context axis"
                                                   : plan_.mesh.size(Axis::context) == 1 ? "the tensor axis"
                                                                                         : "context and tensor axes"),
                         s / pieces, s / pieces, group, s / pieces % group),
             nearest_divisors(s / pieces, group, "group sizes")});
    }
    if (r.kind != Routing::Kind::recorded) return;
    if (r.loads.size() != model_.layers) {
      error("workload.routing.table", "routing-layers", "the routing table does not have a row for each layer",
            {fmt::format("{} has {}; {} has {}.", r.table, counted(r.loads.size(), "row"), name(),
                         counted(model_.layers, "layer"))});
      return;
    }
    for (std::size_t layer = 0; layer < r.loads.size(); ++layer) {
      if (r.loads[layer].size() == m.experts) continue;
      error("workload.routing.table", "routing-experts", "the routing table does not have a load for each expert",
            {fmt::format("The row of layer {} in {} has {}; {} has {}.", layer, r.table,
                         counted(r.loads[layer].size(), "load"), name(), counted(m.experts, "expert"))});
      return;
    }
  }

  const Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  Diagnostics& out_;
};

}  // namespace

void check_mixture(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  Check check(plan, model, workload, out);
  if (model.mixture) {
    check.mixture(*model.mixture);
  } else {
    check.dense();
  }
}

}  // namespace orrery
