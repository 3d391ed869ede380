#include "validate/serving_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "core/base/source_excerpt.hpp"
#include "core/record/device_calibration.hpp"
#include "core/spec/cluster_word.hpp"
#include "validate/shipped_model.hpp"

namespace orrery {
namespace {

/// A size; 0 where it is not published.
std::uint32_t size_in(const std::string& cell) {
  std::uint32_t n = 0;
  const auto [end, fault] = std::from_chars(cell.data(), cell.data() + cell.size(), n);
  return fault == std::errc{} && end == cell.data() + cell.size() && n <= 65536 ? n : 0;
}

struct Refused {
  std::string why;
};

std::string engine_of(const std::string& backend) { return backend == "trtllm" ? "tensorrt-llm" : backend; }

std::string without_format(std::string name) {
  for (const std::string_view end : {"-FP8", "-NVFP4", "-FP4", "-BF16"}) {
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  }
  return name;
}

/// The sizes of one pool, as a row has them.
struct Sizes {
  std::uint32_t tensor = 1, pipeline = 1, attention_data = 1, moe_tensor = 1, moe_expert = 1;
  std::uint32_t groups = 1;  ///< attention groups by which the published batch is multiplied
};

/// What the source says of the concurrency of the run: "...; silicon_concurrency=128; ...".
std::optional<double> stated_concurrency(const std::string& source) {
  const std::string_view name = "silicon_concurrency=";
  const std::size_t at = source.find(name);
  if (at == std::string::npos) return std::nullopt;
  double n = 0.0;
  const char* const begin = source.data() + at + name.size();
  if (std::from_chars(begin, source.data() + source.size(), n).ec != std::errc{}) return std::nullopt;
  return n;
}

/// Rows of InferenceX: a dump of its database, or a table that is called by its day.
bool is_inferencex(const std::string& source) {
  return source.starts_with("db-dump/") || source.starts_with("source_file=20");
}

Sizes sizes_of(const std::string& source, const std::string& tp, const std::string& pp, const std::string& dp,
               const std::string& moe_tp, const std::string& moe_ep) {
  Sizes s;
  s.tensor = std::max(1U, size_in(tp));
  s.pipeline = std::max(1U, size_in(pp));
  s.attention_data = std::max(1U, size_in(dp));
  s.moe_tensor = std::max(1U, size_in(moe_tp));
  s.moe_expert = std::max(1U, size_in(moe_ep));
  const std::uint32_t experts = s.moe_tensor * s.moe_expert;
  // Experts lie over more devices than attention is cut into: the rest are attention groups.
  if (size_in(dp) == 0 && experts > s.tensor && experts % s.tensor == 0) s.attention_data = experts / s.tensor;
  s.groups = std::max(1U, size_in(dp));
  const std::uint32_t all = s.tensor * s.attention_data;
  const auto n = static_cast<std::uint32_t>(std::lround(std::sqrt(all)));
  // 2 x 2 are sizes that engines have.
  if (is_inferencex(source) && n > 2 && n * n == all && experts == all) {
    const bool both = s.moe_tensor == n && s.moe_expert == n;
    const bool thrice = s.moe_expert == all && s.tensor == n;
    if (both || thrice) {
      const bool groups = s.attention_data > 1;
      s.tensor = groups ? 1 : n;
      s.attention_data = groups ? n : 1;
      s.moe_tensor = 1;
      s.moe_expert = n;
    }
  }
  return s;
}

WeightFormat format_of(const std::string& mode, const std::string& precision, const ModelSpec& m) {
  if (mode == "fp8" || mode == "fp8_block") return WeightFormat::fp8;
  if (mode == "nvfp4") return m.name.starts_with("gpt-oss") ? WeightFormat::mxfp4 : WeightFormat::nvfp4;
  if (mode == "int4_wo") return WeightFormat::int4;
  if (mode.empty() && (precision.empty() || precision == "bf16")) return WeightFormat::bf16;
  throw Refused{fmt::format("weights of kind {}", mode.empty() ? precision : mode)};
}

class Reader {
 public:
  Reader(const EngineTable& engines, const Library& library)
      : engines_(engines), library_(library), models_(library.models()) {}

  ServingCase read(const MeasuredServing& row) {
    ServingCase c;
    c.id = row.id;
    c.engine = engine_of(row.backend);
    const Engine* engine = engines_.find(c.engine);
    if (engine == nullptr) throw Refused{"no engine is called " + row.backend};
    if (!row.isl || !row.osl || !row.silicon_tpot_ms) throw Refused{"lengths or time per token are not published"};
    if (*row.osl < 2) throw Refused{"a request of one token has no time per token"};
    const ModelSpec& m = model(row.model_path);
    c.model = m.name;
    c.kind = m.mixture ? "mixture" : "dense";
    c.shape = fmt::format("{}/{}", *row.isl, *row.osl);
    c.gpu = row.system.substr(0, row.system.find('_'));
    c.precision = row.gemm_quant_mode.empty() ? "bf16" : row.gemm_quant_mode;
    if (row.silicon_ttft_ms) c.ttft_s = *row.silicon_ttft_ms / 1e3;
    c.tpot_s = *row.silicon_tpot_ms / 1e3;
    const double input = static_cast<double>(*row.isl), output = static_cast<double>(*row.osl);
    const auto pool = [&](const Sizes& s, double batch, LoadWork& into, double made) {
      ServingPlan p;
      p.tensor = s.tensor;
      p.pipeline = s.pipeline;
      p.attention_data = s.attention_data;
      p.expert = m.mixture ? s.moe_expert : 1;
      set_formats(p, format_of(row.gemm_quant_mode, row.precision, m), m);
      p.kv_fp8 = c.engine == "tensorrt-llm" && p.experts != WeightFormat::bf16;
      const Machine& machine = machine_of(c.gpu, p.devices());
      Diagnostics d;
      check_serving_plan(p, m, machine.cluster, d);
      if (!d.empty()) throw Refused{d.list().front().message};
      const ServingMemory memory = serving_memory(m, p, machine.cluster.device, engine->memory);
      if (!memory.fits()) throw Refused{"its weights leave no room for keys, by datasheet"};
      const StepPricer pricer(m, p, machine.cluster, machine.calibration);
      into = load_work(pricer, m, p, memory, engine->batch, {input, made, batch * s.groups});
      return p;
    };
    if (row.mode == "agg") {
      c.pool = "aggregated";
      const std::uint32_t batch = size_in(row.batch_size);
      if (batch == 0) throw Refused{"its concurrency is not published"};
      const Sizes s = sizes_of(row.silicon_data_source, row.tp_size, row.pp_size, row.attention_dp_size,
                               row.moe_tp_size, row.moe_ep_size);
      const std::optional<double> stated = stated_concurrency(row.silicon_data_source);
      if (stated && *stated != static_cast<double>(batch) * s.groups) throw Refused{"two concurrencies are published"};
      c.plan = pool(s, batch, c.work, output);
    } else {
      read_pools(row, c, pool, input, output);
    }
    c.kv = c.plan.kv_fp8 ? "fp8 assumed" : "bf16 assumed";
    return c;
  }

 private:
  struct Machine {
    ClusterSpec cluster;
    Calibration calibration;
  };

  template <class Pool>
  void read_pools(const MeasuredServing& row, ServingCase& c, const Pool& pool, double input, double output) {
    c.pool = "disaggregated";
    const Sizes d = sizes_of(row.silicon_data_source, row.decode_tp_size, row.decode_pp_size,
                             row.decode_attention_dp_size, row.decode_moe_tp_size, row.decode_moe_ep_size);
    const Sizes p = sizes_of(row.silicon_data_source, row.prefill_tp_size, row.prefill_pp_size,
                             row.prefill_attention_dp_size, row.prefill_moe_tp_size, row.prefill_moe_ep_size);
    const std::uint32_t batch = size_in(row.decode_batch_size);
    const std::uint32_t prompts = std::max(1U, size_in(row.prefill_batch_size));
    if (batch == 0) throw Refused{"the batch of its decoding workers is not published"};
    static_cast<void>(pool(p, prompts, c.pools.prompts, 1.0));
    c.plan = pool(d, batch, c.work, output);
    c.pools.decode = c.work;
    c.pools.prompt_workers = std::max(1U, size_in(row.prefill_num_workers));
    c.pools.decode_workers = std::max(1U, size_in(row.decode_num_workers));
    const ModelSpec& m = model(row.model_path);
    const Bytes keys = input * kv_bytes_per_token(m, c.plan.kv_fp8);
    const ClusterSpec& cluster = machine_of(c.gpu, c.plan.devices()).cluster;
    c.pools.transfer = keys / cluster.levels.back().bandwidth;
  }

  const ModelSpec& model(const std::string& path) {
    const auto [at, fresh] = read_models_.try_emplace(path);
    if (fresh) {
      const std::string name = shipped_model_named(without_format(path), models_);
      Diagnostics d;
      if (!name.empty()) at->second = library_.model(name, {}, d);
    }
    if (!at->second) throw Refused{fmt::format("no shipped model is called {}", escaped(path))};
    return *at->second;
  }

  const Machine& machine_of(const std::string& gpu, std::uint32_t devices) {
    const auto [at, fresh] = machines_.try_emplace({gpu, devices});
    if (fresh) {
      Diagnostics d;
      const bool rack = gpu.starts_with("gb");
      const std::uint32_t box = rack ? 72 : 8;
      const std::string word = devices <= box ? fmt::format("{}:{}", gpu, box)
                                              : fmt::format("{}:{}x{}", gpu, box, (devices + box - 1) / box);
      std::optional<ClusterSpec> cluster = cluster_of_word(word, library_, d);
      if (cluster) {
        if (std::optional<Calibration> c = shipped_calibration(cluster->device, library_, d))
          at->second = Machine{std::move(*cluster), std::move(*c)};
      }
    }
    if (!at->second) throw Refused{fmt::format("no shipped device is called {}", escaped(gpu))};
    return *at->second;
  }

  const EngineTable& engines_;
  const Library& library_;
  std::vector<std::string> models_;
  std::map<std::string, std::optional<ModelSpec>> read_models_;
  std::map<std::pair<std::string, std::uint32_t>, std::optional<Machine>> machines_;
};

}  // namespace

ServingCases serving_cases(const std::vector<MeasuredServing>& rows, const EngineTable& engines,
                           const Library& library) {
  ServingCases out;
  Reader reader(engines, library);
  for (const MeasuredServing& row : rows) {
    try {
      out.cases.push_back(reader.read(row));
    } catch (const Refused& r) {
      out.skipped.push_back({row.id, r.why});
    }
  }
  return out;
}

ServingTimes predicted(const ServingCase& c, const EngineCosts& costs) {
  return c.pool == "disaggregated" ? pool_times(c.pools, costs) : serving_times(c.work, costs);
}

}  // namespace orrery
