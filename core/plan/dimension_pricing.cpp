#include <cmath>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_names.hpp"

// Rows of kernels and messages, which rules choose where a plan leaves them open.

namespace orrery {
namespace {

std::uint64_t bucket(const PlannedRun& run) {
  const auto& bucket = run.plan.gradient_bucket;
  return bucket ? static_cast<std::uint64_t>(std::ceil(bucket->in(mebibyte))) : 0;
}
bool put_bucket(PlannedRun& run, std::uint64_t value, std::string&) {
  auto& bucket = run.plan.gradient_bucket;
  bucket.reset();
  if (value > 0) bucket = Bytes::of(static_cast<double>(value) * mebibyte.base());
  return true;
}
std::vector<std::uint64_t> buckets(const PlannedRun&) {
  std::vector<std::uint64_t> out = doublings(1, 1024);
  out.insert(out.begin(), 0);
  return out;
}
void read_bucket(const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  if (table.read_auto(d.word()) || !table.has(d.word())) return;
  table.read(d.word(), run.plan.gradient_bucket.emplace(), {Bytes::of(1), Bytes::of(0x1p53)});
}
void write_bucket(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const auto& bucket = run.plan.gradient_bucket;
  out.text(d.word(), bucket ? exact_text(*bucket) : "auto");
}

}  // namespace

std::vector<Dimension> pricing_dimensions() {
  using enum DimensionKind;
  return {
      {.key = "plan.gradient_bucket",
       .group = DimensionGroup::communication,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gradient bucket"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Least MiB of gradients that one reduction takes; 0: auto."),
       .most = std::uint64_t{1} << 33,
       .get = bucket,
       .put = put_bucket,
       .values = buckets,
       .applies = shares_weights,
       .read = read_bucket,
       .write = write_bucket},
      {.key = "plan.overlap_gradients",
       .group = DimensionGroup::communication,
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gradient overlap"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Reduce gradients beside the last backward pass."),
       .names = or_auto(switch_names()),
       .get = plan_value<&Plan::overlap_gradients>,
       .put = put_plan<&Plan::overlap_gradients>,
       .applies = shares_weights},
      {.key = "plan.attention",
       .group = DimensionGroup::memory,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Attention"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Flash keeps no scores."),
       .names = or_auto(attention_names()),
       .get = plan_value<&Plan::attention>,
       .put = put_plan<&Plan::attention>},
      // This value stays open in a resolved plan: pricing then takes the quickest algorithm.
      {.key = "plan.collective_algorithm",
       .group = DimensionGroup::communication,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Collectives"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "One algorithm for all collectives, in place of the fastest of each."),
       .names = or_auto(algorithm_names()),
       .get = plan_value<&Plan::collective_algorithm>,
       .put = put_plan<&Plan::collective_algorithm>,
       .applies = [](const PlannedRun& run) { return run.plan.mesh.size() > 1; },
       .said = Said::unless_default},
  };
}

}  // namespace orrery
