#include "serve/serving_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace orrery {
namespace {

std::string divisors_text(std::uint64_t n, std::uint64_t most) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t d = 1; d <= n && d <= most; ++d) {
    if (n % d == 0) found.push_back(d);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

std::string text_of(const ServingPlan& p, const ModelSpec& m) {
  std::string out = fmt::format("tp {}", p.tensor);
  if (p.pipeline > 1) out += fmt::format(", pp {}", p.pipeline);
  if (p.attention_data > 1) out += fmt::format(", attention-dp {}", p.attention_data);
  if (p.expert > 1) out += fmt::format(", ep {}", p.expert);
  out += fmt::format(", {}", name_of(p.weights));
  if (m.mixture && p.experts != p.weights) out += fmt::format(" (experts {})", name_of(p.experts));
  return out + (p.kv_fp8 ? ", KV fp8" : ", KV bf16");
}

void set_formats(ServingPlan& p, WeightFormat f, const ModelSpec& m) {
  p.experts = f;
  const bool four_bits = f == WeightFormat::int4 || f == WeightFormat::mxfp4 || f == WeightFormat::nvfp4;
  p.weights = m.mixture && four_bits ? WeightFormat::bf16 : f;
}

void check_serving_plan(const ServingPlan& p, const ModelSpec& m, const ClusterSpec& c, Diagnostics& d) {
  if (m.counted) {
    d.error("serve.model", fmt::format("{} is only counted: it has {}", m.name, m.counted->because),
            {"A step of it has operations that Orrery does not price."});
    return;
  }
  if (m.architecture != Architecture::decoder) {
    d.error("serve.model", fmt::format("{} generates no tokens", m.name), {"Causal language models are served."});
    return;
  }
  const auto divides = [&](std::uint64_t whole, const char* what) {
    if (whole % p.tensor == 0) return;
    d.error("serve.tensor", fmt::format("the tensor size does not divide the {}", what),
            {fmt::format("{} / {} leaves {}.", whole, p.tensor, whole % p.tensor),
             fmt::format("Sizes that do: {}.", divisors_text(whole, 128))});
  };
  divides(m.heads, "heads");
  if (!m.latent && m.kv_heads % p.tensor != 0 && p.tensor % m.kv_heads != 0) {
    d.error("serve.tensor", "the tensor size neither divides the KV heads nor is a multiple of them",
            {fmt::format("There are {} KV heads; ranks beyond them hold copies.", m.kv_heads)});
  }
  if (!m.mixture || mixes_kinds(m)) divides(m.ffn, "width of feed-forward layers");
  if (p.pipeline > m.layers) {
    d.error("serve.pipeline", fmt::format("{} stages are more than the {} layers", p.pipeline, m.layers));
  }
  if (p.expert > 1 && !m.mixture) {
    d.error("serve.expert", fmt::format("{} has no experts", m.name), {"Its expert size is 1."});
  }
  if (m.mixture) {
    if (p.stage_devices() % p.expert != 0 || m.mixture->experts % p.expert != 0) {
      d.error("serve.expert",
              fmt::format("an expert size of {} does not divide the experts over the devices", p.expert),
              {fmt::format("There are {} experts, and {} devices in a stage (tensor {} x attention-data {}).",
                           m.mixture->experts, p.stage_devices(), p.tensor, p.attention_data)});
    } else if (m.mixture->ffn % (p.stage_devices() / p.expert) != 0) {
      d.error("serve.expert", "the slices of an expert are not equal",
              {fmt::format("Its width of {} is cut into {}, the devices of a stage over the expert size.",
                           m.mixture->ffn, p.stage_devices() / p.expert),
               fmt::format("An expert size of {} leaves experts whole.", p.stage_devices())});
    }
  }
  if (p.devices() > c.devices()) {
    d.error("serve.devices", fmt::format("a replica takes {} devices, and {} has {}", p.devices(), c.name, c.devices()),
            {"--gpus gives the cluster another number of devices."});
  }
}

}  // namespace orrery
