#include "core/program/lower/lower.hpp"

#include <array>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/order_memo.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery {
namespace lowering {

std::span<const LoweringPass> all_passes() {
  static const std::array list = {place(),
                                  schedule(),
                                  recomputation(),
                                  sharding_collectives(),
                                  pipeline_transfers(),
                                  gathers_and_reductions(),
                                  optimizer(),
                                  lifetimes(),
                                  parameter_copies(),
                                  host_copies(),
                                  lanes()};
  return list;
}

/// Whether what passes state before and after is held to be true.
bool is_checked(const Extensions& extensions) {
#ifdef ORRERY_CHECK_PASSES
  return extensions.orders == nullptr || extensions.orders->checks_next();
#else
  return static_cast<void>(extensions), false;
#endif
}

void run(const LoweringPass& pass, State& state, bool checked) {
  if (checked) {
    const std::string broken = pass.before(state);
    ORRERY_ASSERT(broken.empty(), state.plan.name, std::string(pass.name), broken);
  }
  pass.run(state);
  if (checked) {
    const std::string wrong = pass.after(state);
    ORRERY_ASSERT(wrong.empty(), state.plan.name, std::string(pass.name), wrong);
  }
}

}  // namespace lowering

Program lower(const ModelSpec& model, const Workload& workload, const Plan& plan, const Extensions& extensions) {
  return lower_until(model, workload, plan, lowering::all_passes().back().name, extensions);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const lowering::LoweringPass& p : lowering::all_passes()) names.emplace_back(p.name);
  return names;
}

Program lower_until(const ModelSpec& model, const Workload& workload, const Plan& plan, std::string_view last,
                    const Extensions& extensions) {
  ORRERY_ASSERT(is_resolved(plan), plan.name);
  lowering::State state(model, workload, plan, extensions.tensor, extensions.orders);
  const bool checked = lowering::is_checked(extensions);
  for (const lowering::LoweringPass& pass : lowering::all_passes()) {
    lowering::run(pass, state, checked);
    if (pass.name == last) return lowering::program_of(std::move(state));
  }
  ORRERY_ASSERT(false, std::string(last));
  return {};
}

}  // namespace orrery
