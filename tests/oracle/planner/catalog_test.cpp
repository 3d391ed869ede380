// Every shipped model can be planned.
#include <catch2/catch.hpp>

#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/search.hpp"

using namespace orrery;

TEST_CASE("the search ends for every shipped model, with a best plan or with none that fits", "[oracle][planner]") {
  const Library library(ORRERY_SOURCE_DIR "/models");
  Diagnostics wrong;
  const auto cluster = library.cluster("dgx-a100", {}, 8, wrong);
  REQUIRE(cluster);
  const auto calibration = read_calibration(library.calibration(cluster->device.calibration), wrong);
  REQUIRE(calibration);
  int planned = 0, none = 0;
  for (const std::string& name : library.models()) {
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
    options.limits = basic_limits();
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
