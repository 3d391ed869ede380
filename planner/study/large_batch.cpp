#include <fmt/format.h>

#include "core/spec/batch_curve.hpp"
#include "planner/study/studies.hpp"

// Experiment E14: BERT with LAMB from batch 512 to 64k, 81 hours to 76 minutes.

namespace orrery {
namespace {

constexpr double base_steps = 1e6, base_batch = 512.0, base_chips = 16.0, base_seconds = 81.0 * 3600.0;
constexpr double large_steps = 8599.0, large_chips = 1024.0, large_seconds = 76.0 * 60.0;
/// Nine tenths of BERT's examples are sequences of 128 tokens, the last tenth of 512, which take half the batch.
constexpr double short_batch = 65536.0, long_batch = 32768.0, short_share = 0.9;

}  // namespace

StudyResult large_batch_study(const Library&) {
  StudyResult r;
  r.experiments = {"E14"};
  r.sources = {
      "You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, arXiv 1904.00962; "
      "the announcement of Colossal-AI names the batches"};
  r.formulas = {"steps_over_least", "examples_over_least"};
  r.assumptions = {
      "Known: both batches, both times, numbers of chips and of steps (unverified where the table says so).",
      "Assumed: nine tenths of the examples are short (batch 65,536), the rest is long (batch 32,768), as BERT's "
      "recipe is. No calibration of a TPU v3 is shipped, so that speed is compared with itself."};
  const double examples = base_steps * base_batch;
  const double steps = short_share * examples / short_batch + (1.0 - short_share) * examples / long_batch;
  const double times = base_seconds / large_seconds;
  const double each = (examples / large_seconds / large_chips) / (examples / base_seconds / base_chips);
  r.claims = {
      {"steps at the large batch", number(large_steps, 0), Evidence::unverified, number(steps, 0),
       judged(steps, large_steps, 0.005),
       "as many examples as at batch 512: the batch costs no examples, so the critical batch lies far above 64k with "
       "LAMB and its warm-up"},
      {"times faster", number(times, 1), Evidence::calculated, number(large_chips / base_chips, 1),
       judged(large_chips / base_chips, times, 0.005),
       "64 times the chips with as many examples: every chip works as fast as before"},
      {"rate of a chip, large over small", plain("-"), Evidence::calculated, number(each, 3), Verdict::undecided,
       "81 h on 16 against 76 min on 1,024; whether a network allows that needs the constants of the machine"}};
  StudyTable table{"Steps for the quality of 1 M steps of batch 512, by critical batch",
                   {"critical batch", "steps at 65,536", "examples against batch 512", "hours on 1,024 chips"},
                   {}};
  Chart chart{"Steps for the same quality", "batch, sequences", "steps", true, true, {}, {}};
  for (const double critical : {4096.0, 32768.0, 262144.0, 4194304.0}) {
    const double least = base_steps / steps_over_least(base_batch, critical);
    const double taken = least * steps_over_least(short_batch, critical);
    const double more = examples_over_least(short_batch, critical) / examples_over_least(base_batch, critical);
    table.rows.push_back({number(critical, 0), number(taken, 0), number(more, 3),
                          number(more * base_seconds * base_chips / large_chips / 3600.0, 2)});
    Series s{fmt::format("critical {:.0f}", critical), {}};
    for (double batch = base_batch; batch <= short_batch; batch *= 2.0)
      s.points.push_back({batch, least * steps_over_least(batch, critical)});
    chart.series.push_back(std::move(s));
  }
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {
      fmt::format("81 h to 76 min is {:.1f} times on 64 times the chips: all of it is scaling, none is fewer examples.",
                  times),
      "What LAMB adds is that 128 times the batch needs no more examples; with a critical batch of 32,768 it would "
      "need three times as many.",
      "orrery forecast --critical-batch and --batch-curve take this into a forecast."};
  return r;
}

}  // namespace orrery
