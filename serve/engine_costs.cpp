#include "serve/engine_costs.hpp"

#include <algorithm>

namespace orrery {

std::string_view name_of(EngineCost c) {
  switch (c) {
    case EngineCost::weights: return "weights";
    case EngineCost::experts: return "experts";
    case EngineCost::keys: return "keys";
    case EngineCost::products: return "products";
    case EngineCost::expert_products: return "expert_products";
    case EngineCost::unpacked: return "unpacked";
    case EngineCost::layer: return "layer";
    case EngineCost::mixture_layer: return "mixture_layer";
    case EngineCost::collective: return "collective";
    case EngineCost::step: return "step";
    case EngineCost::sequence: return "sequence";
    case EngineCost::prompt_layer: return "prompt_layer";
    case EngineCost::prompt: return "prompt";
    case EngineCost::burst: return "burst";
  }
  return "";
}

StepTimeParts step_time_parts(const StepWork& w, const EngineCosts& c) {
  StepTimeParts out;
  const double stages = w.stages;
  for (const ServingOp& op : w.ops) {
    double products = 1.0;
    double bytes = 1.0;
    switch (op.part) {
      case StepPart::dense:
        products = c[EngineCost::products];
        bytes = c[EngineCost::weights];
        break;
      case StepPart::expert:
        products = c[EngineCost::expert_products];
        bytes = c[EngineCost::experts];
        break;
      case StepPart::keys:
        products = c[EngineCost::products];
        bytes = c[EngineCost::keys];
        break;
      case StepPart::prompt_attention: products = c[EngineCost::products]; break;
      case StepPart::elementwise: break;
    }
    if (op.unpacked) bytes *= c[EngineCost::unpacked];
    out.ops[static_cast<std::size_t>(op.part)] += stages * std::max(products * op.products, bytes * op.bytes);
  }
  out.layers = Seconds::of(stages * (w.layers * c[EngineCost::layer] + w.mixtures * c[EngineCost::mixture_layer]));
  out.collectives =
      stages * (Seconds::of(w.collectives * c[EngineCost::collective]) + w.collective_bytes) + (stages - 1.0) * w.hop;
  out.host = Seconds::of(c[EngineCost::step] + w.sequences * c[EngineCost::sequence]);
  return out;
}

Seconds step_time(const StepWork& w, const EngineCosts& c) {
  const StepTimeParts parts = step_time_parts(w, c);
  Seconds sum = parts.layers + parts.collectives + parts.host;
  for (const Seconds part : parts.ops) sum += part;
  return sum;
}

}  // namespace orrery
