// Every shipped model can be planned: ordinarily one of each kind, the smallest; with ORRERY_LONG_TESTS all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/search.hpp"

using namespace orrery;

namespace {

/// What a model's layers are made of, its sizes and constants left out.
std::string kind_of(ModelSpec m) {
  m.name = m.source = "";
  m.layers = m.hidden = m.heads = m.kv_heads = m.head_dim = m.ffn = m.vocabulary = m.max_positions = 1;
  m.rotary_dim = m.rotary_dim > 0 ? 2 : 0;
  m.prediction_modules = 0;
  m.norm_epsilon = m.rope_theta = m.embedding_scale = m.residual_scale = m.logit_scale = 1.0;
  m.rope_scaling = "";
  m.rope_stretch = {};
  for (double* bound : {&m.attention_scale, &m.attention_softcap, &m.logit_softcap, &m.qkv_clip, &m.gate_limit}) {
    *bound = *bound > 0.0 ? 1.0 : 0.0;
  }
  if (m.local) m.local->size = 1, m.local->rope_theta = 0.0, m.local->global = {.every = 2, .layers = {}};
  if (!m.unrotated.empty()) m.unrotated = {.every = 2, .layers = {}};
  if (m.mixture) {
    const bool mixed = m.mixture->first_dense > 0 || m.mixture->every > 1;
    m.mixture->experts = m.mixture->per_token = 1, m.mixture->ffn = 1, m.mixture->scale = 1.0;
    m.mixture->groups = m.mixture->groups_per_token = 1, m.mixture->every = mixed ? 2 : 1;
    m.mixture->first_dense = 0, m.mixture->shared_ffn = m.mixture->shared_ffn > 0 ? 1 : 0;
  }
  return write_model(m);
}

std::vector<std::string> chosen(const Library& library) {
  if (std::getenv("ORRERY_LONG_TESTS") != nullptr) return library.models();
  std::map<std::string, std::pair<std::uint64_t, std::string>> smallest;
  for (const std::string& name : library.models()) {
    Diagnostics d;
    const auto model = library.model(name, {}, d);
    if (!model) continue;  // the test says so where it reads all
    const std::pair<std::uint64_t, std::string> here{parameter_count(*model), name};
    const auto [at, fresh] = smallest.emplace(kind_of(*model), here);
    if (!fresh) at->second = std::min(at->second, here);
  }
  // Models that do not fit on eight GPUs belong to it: a dense one and a mixture.
  std::vector<std::string> names{"llama-3-405b", "kimi-k2"};
  for (const auto& [kind, model] : smallest) {
    if (std::find(names.begin(), names.end(), model.second) == names.end()) names.push_back(model.second);
  }
  return names;
}

}  // namespace

TEST_CASE("the search ends for every shipped model, with a best plan or with none that fits", "[oracle][planner]") {
  const Library library(ORRERY_SOURCE_DIR "/models");
  Diagnostics wrong;
  const auto cluster = library.cluster("dgx-a100", {}, 8, wrong);
  REQUIRE(cluster);
  const auto calibration = read_calibration(library.calibration(cluster->device.calibration), wrong);
  REQUIRE(calibration);
  int planned = 0, none = 0;
  for (const std::string& name : chosen(library)) {
    const auto model = library.model(name, {}, wrong);
    CAPTURE(name, render(wrong));
    REQUIRE(model);
    Workload workload;
    workload.global_batch = 8;
    workload.sequence_length =
        model->image ? patch_count(*model->image) + 1 : std::min<std::uint64_t>(model->max_positions, 512);
    SearchOptions options;
    options.simulate = false;
    options.top = 1;
    options.limits = plainest_limits();
    const SearchResult found = search(*model, workload, *cluster, *calibration, options);
    CAPTURE(found.claim);
    CHECK(found.complete);
    CHECK(found.shapes > 0);
    if (found.plans.empty()) {
      CHECK(found.claim.starts_with("None of "));
      ++none;
      continue;
    }
    CHECK(found.plans.front().report.fits);
    ++planned;
  }
  CHECK(planned > 20);
  CHECK(none > 5);
}
