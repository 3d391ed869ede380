#include "core/program/verify_handovers.hpp"

#include <fmt/format.h>

#include <optional>

namespace orrery::verifying {

namespace {

/// Stands for embedding and head, which use each other's parameters where a table is tied.
constexpr std::uint32_t outside_layers = ~std::uint32_t{0};

bool of_embedding(KernelKind kind) {
  return kind == KernelKind::embed_backward || kind == KernelKind::position_backward ||
         kind == KernelKind::segment_backward || kind == KernelKind::class_token_backward;
}

/// The layer whose parameters, or gradients of them, are among the operands; none where the operands do not show it.
std::optional<std::uint32_t> module_of(const Regions& regions, const OpRun& run, const Kernel& k) {
  if (of_embedding(k.kind)) return outside_layers;
  const Program& p = regions.program();
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const Buffer& b = p[view(run, i).buffer];
    if (!b.parameters) continue;
    if (!of_layers(p.parameter_tables[*b.parameters])) return outside_layers;
    // Copies that live for a while belong to the layer of the run.
    return per_layer(b.scope) ? regions.instance(run, view(run, i)).layer : run.layer;
  }
  return std::nullopt;
}

std::string module_name(std::uint32_t module) {
  return module == outside_layers ? "the embedding or the head" : fmt::format("layer {}", module);
}

}  // namespace

bool keeps_elements(KernelKind kind) {
  return kind == KernelKind::dropout_backward || kind == KernelKind::multiply || kind == KernelKind::swap_blocks ||
         kind == KernelKind::convert;
}

void Handovers::take(const OpRun& run, const Kernel& k) {
  if (k.pass != Pass::input_gradient && k.pass != Pass::weight_gradient) return;
  const auto module = module_of(regions_, run, k);
  if (!module) return;
  // The input that a norm had in the forward pass is the stream, which the head and the first prediction module both
  // take.
  const bool norm = k.kind == KernelKind::layer_norm_backward_input || k.kind == KernelKind::rms_norm_backward_input ||
                    k.kind == KernelKind::layer_norm_backward_weight || k.kind == KernelKind::rms_norm_backward_weight;
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const View& v = view(run, i);
    const Buffer& b = p_[v.buffer];
    if (v.use != View::Use::read || b.parameters || (norm && i == 1) ||
        (b.role != Role::activation && b.role != Role::workspace))
      continue;
    const std::uint64_t origin = regions_.origin(run, v);
    if (zeros_.contains(origin)) continue;
    const auto [at, first] = takers_.try_emplace(origin, *module);
    if (first || at->second == *module) continue;
    regions_.wrong("program.stale",
                   fmt::format("{} takes {}, which is the input of {} and not its output", module_name(*module), b.name,
                               module_name(at->second)),
                   run);
  }
}

void Handovers::clear(const OpRun& run) {
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) zeros_.insert(regions_.origin(run, view(run, i)));
}

void Handovers::send(const OpRun& run) {
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const View& v = view(run, i);
    if (v.use != View::Use::read) continue;
    const auto at = takers_.find(regions_.origin(run, v));
    if (at == takers_.end()) continue;
    regions_.wrong("program.stale",
                   fmt::format("{} is sent, which is the input of {} and not its output", p_[v.buffer].name,
                               module_name(at->second)),
                   run);
  }
}

}  // namespace orrery::verifying
