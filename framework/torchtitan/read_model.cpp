#include <fmt/format.h>

#include <algorithm>

#include "framework/launch/model_names.hpp"
#include "framework/torchtitan/models.hpp"
#include "framework/torchtitan/reading.hpp"

// The model of a torchtitan configuration, and what its converters make of it.

namespace orrery {
namespace {

std::string flavors_of(std::string_view name) {
  std::string out;
  for (const TitanModel& m : titan_models()) {
    if (name.empty() || m.name == name) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", m.name, m.flavor);
  }
  return out;
}

}  // namespace

bool TitanReading::model() {
  const std::string name = r_.text("model.name").value_or("llama3");
  const std::string flavor = r_.text("model.flavor").value_or("debugmodel");
  const auto refuse = [&](std::string_view at, std::string message, std::vector<std::string> details) {
    r_.without_effect({"*"}, "the model is not in plans");
    r_.error(at, std::move(message), std::move(details));
    return false;
  };
  if (name.find("flux") != std::string::npos) {
    return refuse("model.name", "image models are not in plans",
                  {fmt::format("{} makes images out of noise; plans have language models.", name)});
  }
  if (name.find("vlm") != std::string::npos || name.find("siglip") != std::string::npos ||
      r_.file().has("data.max_images_per_batch")) {
    return refuse("model.name", "multimodal models are not in plans",
                  {fmt::format("{} reads images beside text.", name)});
  }
  const auto hub = r_.text("hf_transformers.model");
  if (hub && !flavor.starts_with("debugmodel")) {  // which is a smaller one of the same kind
    r_.model_named("hf_transformers.model", *hub);
    without_effect({"model.name", "model.flavor"}, "the model is the one of the hub");
    if (r_.known_model() != nullptr) return true;
    without_effect({"*"}, "the model is not in plans");
    return false;
  }
  without_effect({"hf_transformers.*"}, "the flavor has a shape of its own");
  const TitanModel* known = titan_model_named(name, flavor);
  if (r_.known_model() != nullptr) {  // of --model
    for (const char* at : {"model.name", "model.flavor"}) {
      if (has(at)) r_.take(at, "--model gives the model in its place");
    }
    return true;
  }
  if (known == nullptr) {
    const bool has_flavors = !flavors_of(name).empty();
    return refuse(has("model.flavor") ? "model.flavor" : "model.name",
                  fmt::format("no shipped model is torchtitan's {} {}", name, flavor),
                  {"Give a config.json with --model, or a name from `orrery show models`.",
                   fmt::format("Known: {}.", flavors_of(has_flavors ? name : std::string_view()))});
  }
  std::optional<ModelSpec> spec = r_.library().model(std::string(known->shipped), "", r_.diagnostics());
  if (!spec) return false;
  const std::string says = known->shape == nullptr ? "the model" : fmt::format("the model, near {}", known->shipped);
  if (known->shape == nullptr) {
    r_.model_named(has("model.flavor") ? "model.flavor" : "model.name", std::string(known->shipped));
  } else {
    known->shape(*spec);
    spec->name = own_name(*known);
    spec->source = "pytorch/torchtitan@73a0e6979, torchtitan/models";
    spec->origin = {};
    r_.model(*std::move(spec));
  }
  for (const char* at : {"model.name", "model.flavor"}) {
    if (has(at)) r_.take(at, says);
  }
  return true;
}

void TitanReading::converters() {
  for (const std::string& c : texts("model.converters")) {
    if (c == "float8" || c == "mx" || c == "quantize.linear.float8" || c == "quantize.linear.mx") {
      float8_ = true;
      r_.take("model.converters", fmt::format("{}: products of layers in fp8", c));
    } else if (c == "quantize.grouped_mm.float8" || c == "quantize.grouped_mm.mx") {
      // Experts follow the other layers' products, which most of these runs quantize too.
      r_.take("model.converters", fmt::format("{}: products of experts as those of layers", c));
    } else if (c.find("lora") != std::string::npos) {
      r_.error("model.converters", "lora adapters are not read here yet",
               {"[workload.adapters] of a plan file has them."});
    } else {
      r_.refuse("model.converters", fmt::format("plans do not know the converter {}", c), "the model without it");
    }
  }
  if (has("model.converters")) r_.take("model.converters", "");
  const auto all = texts("model.converters");
  const bool experts = std::any_of(all.begin(), all.end(), [](const auto& c) { return c.find("grouped") != c.npos; });
  if (experts && !float8_) {
    r_.refuse("model.converters", "experts alone in fp8 are not in plans", "products in bf16");
  }
  for (const char* gather :
       {"quantize.linear.float8.enable_fsdp_float8_all_gather", "float8.enable_fsdp_float8_all_gather"}) {
    if (!r_.toggle(gather).value_or(false)) continue;
    if (float8_) {
      r_.refuse(gather, "weights gathered in fp8 are not in plans", "weights gathered in bf16");
    } else {
      r_.without_effect(gather, "no converter is float8");
    }
  }
  without_effect({"quantize.*", "float8.*", "mx.*"}, "which layers and scales fp8 has is no part of a plan");
}

}  // namespace orrery
