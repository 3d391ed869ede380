#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "serve/engine.hpp"
#include "validate/serving_table.hpp"

namespace orrery {

/// A row of a table of served points, with the steps that its load makes.
struct ServingCase {
  std::string id, engine, gpu, model, precision, shape, kind;  ///< what summaries group by; kind: dense or mixture
  std::string pool;                                            ///< "aggregated" or "disaggregated"
  ServingPlan plan;  ///< of the replica; of disaggregated pools the decoding ones
  std::string kv;    ///< "fp8 assumed": the table does not say it
  LoadWork work;
  PoolWork pools;                        ///< disaggregated, in place of `work`
  std::optional<double> ttft_s, tpot_s;  ///< measured
};

/// A row that cannot be predicted.
struct SkippedServing {
  std::string id, reason;
};

struct ServingCases {
  std::vector<ServingCase> cases;
  std::vector<SkippedServing> skipped;
};

/// Reads rows as docs/serve.md says:
///
/// * `batch_size` is the concurrency of one attention group, so that a replica has batch_size x attention_dp_size.
///   Rows whose source states another `silicon_concurrency` are refused.
/// * Where in a row of InferenceX the moe sizes multiply to n^2 = tp x attention_dp, with n above 2, and both of one
///   kind are n (or the experts n^2), the source has multiplied a size of n twice: the replica has n devices, with n
///   groups of experts. (Rows of the same run with the sizes stated plainly are in the table too; none of n = 2.)
/// * Keys are fp8 where TensorRT-LLM serves fp8 or four-bit weights, bf16 otherwise.
/// * Four-bit weights of gpt-oss are MXFP4, others NVFP4.
[[nodiscard]] ServingCases serving_cases(const std::vector<MeasuredServing>&, const EngineTable&, const Library&);

/// What the costs of its engine predict of a case.
[[nodiscard]] ServingTimes predicted(const ServingCase&, const EngineCosts&);

}  // namespace orrery
