#include "framework/search_space.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

/// The limits within what the framework launches of the model. A dimension of which no value is left is a mistake.
SearchLimits within(const SearchLimits& asked, const Framework& framework, const ModelSpec& model,
                    const Workload& workload, Diagnostics& d) {
  const SearchLimits can = abilities_of(framework);
  for (const auto& [key, values] : both(asked, can).only) {
    if (!values.empty()) continue;
    const Dimension& what = dimension(key);
    d.error(
        "framework.cannot",
        fmt::format("{} does not launch {} = {}", framework.title, what.word(), values_text(what, asked.only.at(key))),
        {fmt::format("It launches {}; --only names other values.", values_text(what, can.only.at(key)))});
  }
  if (framework.check_model != nullptr) framework.check_model(model, workload, d);
  return both(asked, d.empty() ? abilities_of(framework, model, workload) : can);
}

}  // namespace

const Framework* wished_framework(const SpaceWish& wish, Diagnostics& d) {
  const Framework* writer = wish.writing ? framework_writing(*wish.writing) : nullptr;
  if (wish.writing && writer == nullptr) {
    std::string known;
    for (const LaunchWriting& w : launch_writings()) known += fmt::format("{}{}", known.empty() ? "" : ", ", w.name);
    d.error("cli.export", fmt::format("there is no export to \"{}\"", *wish.writing),
            {fmt::format("Known: {}.", known)});
    return nullptr;
  }
  if (wish.framework.empty()) return writer;
  if (wish.framework == "any") return nullptr;
  const Framework* framework = framework_named(wish.framework);
  if (framework == nullptr) {
    std::string known = "any";
    for (const Framework& f : frameworks()) {
      if (!f.abilities.empty()) known += fmt::format(", {}", f.name);
    }
    d.error("framework.name", fmt::format("no framework is named \"{}\"", wish.framework),
            {fmt::format("Known: {}.", known)});
  } else if (framework->abilities.empty()) {
    d.error("framework.name", fmt::format("{} has no search of its own", framework->title),
            {"Search for a program that it uses, or that shards alike: --for accelerate, --for deepspeed, "
             "--for megatron-core, --for torchtitan."});
    return nullptr;
  }
  return framework;
}

const Framework* usual_framework(std::string_view program) {
  if (program == "none") return nullptr;
  for (const Framework& f : frameworks()) {
    if (std::find(f.programs.begin(), f.programs.end(), program) != f.programs.end()) return &f;
  }
  return framework_named("megatron-core");
}

SearchLimits plainest_within(const SearchLimits& limits) {
  SearchLimits plain = both(plainest_limits(), limits);
  for (auto& [key, values] : plain.only) {
    if (values.empty()) values = limits.only.at(key);
  }
  return plain;
}

SearchSpace search_space_of(const SpaceWish& wish, std::string_view program, const ModelSpec& model,
                            const Workload& workload, Diagnostics& d) {
  SearchSpace out;
  if (wish.only) out.limits = limits_of(*wish.only, d);
  out.framework = wished_framework(wish, d);
  if (!d.empty()) return out;
  if (out.framework != nullptr) {
    out.limits = within(out.limits, *out.framework, model, workload, d);
    // A plan may be written by another program than the one that launches it.
    const Framework* writer = wish.writing ? framework_writing(*wish.writing) : nullptr;
    if (writer != nullptr && writer != out.framework && writer->check_model != nullptr) {
      writer->check_model(model, workload, d);
    }
    return out;
  }
  if (wish.only || wish.framework == "any") return out;
  const Framework* usual = usual_framework(program);
  if (usual == nullptr) return out;
  Diagnostics cannot;
  SearchLimits limits = within(out.limits, *usual, model, workload, cannot);
  if (!cannot.empty()) {
    out.not_usual = fmt::format("{}: {}", usual->title, cannot.list().front().message);
    return out;
  }
  out.framework = usual;
  out.assumed = true;
  out.limits = std::move(limits);
  return out;
}

}  // namespace orrery
