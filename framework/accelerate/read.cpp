#include <fmt/format.h>

#include <algorithm>

#include "framework/accelerate/parts.hpp"

// Keys are those of huggingface/accelerate@16cb6eb8: src/accelerate/commands/config/config_args.py (ClusterConfig) and
// commands/launch.py.

namespace orrery {

bool is_accelerate_yaml(const LaunchFile& file) {
  return file.has("distributed_type") || (file.has("compute_environment") && file.has("num_processes"));
}

std::string read_accelerate_precision(LaunchReading& r, bool elsewhere) {
  constexpr const char* key = "mixed_precision";
  const auto word = r.word(key, {"no", "false", "fp16", "bf16", "fp8"});
  if (!word) {
    if (r.value(key) == nullptr && !elsewhere)
      r.assume("workload.precision", "\"fp32\"", "the file does not say mixed_precision");
    return "fp32";
  }
  const std::string precision = *word == "no" || *word == "false" ? "fp32" : *word;
  r.set(key, "workload.precision", fmt::format("\"{}\"", precision));
  return precision;
}

namespace {

/// Groups of keys that other kinds of runs have.
void leave_out(LaunchReading& r, std::string_view used) {
  for (const char* group : {"fsdp_config", "deepspeed_config", "megatron_lm_config"}) {
    if (used == group) continue;
    for (const LaunchValue& v : r.file().values) {
      if (v.key == group || v.key.starts_with(std::string(group) + "."))
        r.without_effect(v.key, "distributed_type is another one");
    }
  }
}

void read_rest(LaunchReading& r) {
  r.without_effect({"compute_environment",
                    "debug",
                    "machine_rank",
                    "main_process_ip",
                    "main_process_port",
                    "main_training_function",
                    "rdzv_backend",
                    "rdzv_conf",
                    "same_network",
                    "gpu_ids",
                    "num_machines",
                    "enable_cpu_affinity",
                    "num_cpu_threads_per_process",
                    "mpirun_config",
                    "mpirun_config.*",
                    "max_restarts",
                    "monitor_interval",
                    "log_dir",
                    "role",
                    "tee",
                    "deepspeed_hostfile",
                    "use_cpu"},
                   "it starts the processes");
  r.without_effect(
      {"downcast_bf16", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "tpu_env", "tpu_env.*", "tpu_vm",
       "tpu_vm.*", "commands", "commands.*", "command_file", "ipex_config", "ipex_config.*", "use_xpu"},
      "it is for devices of other kinds");
  r.without_effect({"dynamo_config", "dynamo_config.*", "dynamo_backend", "dynamo_mode", "dynamo_use_dynamic",
                    "dynamo_use_fullgraph"},
                   "how kernels are compiled is a matter of software costs");
  r.without_effect({"fp8_config", "fp8_config.*"}, "how values are scaled is left to the library");
  r.without_effect({"parallelism_config", "fsdp_config", "deepspeed_config", "megatron_lm_config"}, "it is empty");
  r.without_effect({"fsdp_version", "use_fsdp", "use_deepspeed", "use_megatron_lm", "use_parallelism_config"},
                   "distributed_type says it");
}

/// Whether this kind of run can be a plan.
bool is_known(LaunchReading& r, const std::string& type) {
  constexpr const char* key = "distributed_type";
  if (const auto where = r.text("compute_environment"); where && *where == "AMAZON_SAGEMAKER") {
    r.error("compute_environment", "SageMaker's own parallelism is not in plans",
            {"A configuration for LOCAL_MACHINE says how the run is split."});
    return false;
  }
  if (r.toggle("use_cpu").value_or(false) || type == "MULTI_CPU") {
    r.error(r.value("use_cpu") != nullptr && type != "MULTI_CPU" ? "use_cpu" : key, "runs on CPUs are not read",
            {"Plans for local-cpu are written by hand."});
    return false;
  }
  if (type == "XLA" || type == "TPU" || type == "MULTI_NEURON") {
    r.error(key, fmt::format("{} splits runs by its own compiler, which plans do not have", type));
    return false;
  }
  return true;
}

}  // namespace

void read_accelerate_yaml(LaunchReading& r) {
  constexpr const char* key = "distributed_type";
  const auto word = r.word(key, {"NO", "false", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA",
                                 "MULTI_XPU", "MULTI_HPU", "MULTI_NEURON", "MULTI_CPU", "FSDP", "DEEPSPEED",
                                 "MEGATRON_LM", "XLA", "TPU", "DATA_PARALLEL", "MODEL_PARALLEL"});
  if (!word && r.value(key) != nullptr) return;
  const std::string type = !word ? "NO" : *word == "false" ? "NO" : *word;
  if (word) r.take(key, "how the run is split");
  if (!is_known(r, type)) return;

  LaunchSizes sizes;
  sizes.order = {"replica", "data", "context", "tensor"};
  constexpr const char* processes = "num_processes";
  const LaunchValue* n = r.value(processes);
  if (n != nullptr && n->text == "-1")
    r.take(processes, "left open for the launcher");
  else if (const auto count = r.whole(processes, 1))
    sizes.gpus = LaunchSizes::Size{*count, processes};
  else if (type == "NO" && !r.options().gpus)
    sizes.gpus = LaunchSizes::Size{1, ""};
  const std::uint64_t machines = r.whole("num_machines", 1).value_or(1);
  constexpr const char* accumulation = "gradient_accumulation_steps";
  if (const auto steps = r.whole(accumulation, 1)) sizes.accumulation = LaunchSizes::Size{*steps, accumulation};

  const std::string precision = read_accelerate_precision(r, type == "DEEPSPEED");
  const bool deep = type == "DEEPSPEED";
  leave_out(r, type == "FSDP"          ? "fsdp_config"
               : deep                  ? "deepspeed_config"
               : type == "MEGATRON_LM" ? "megatron_lm_config"
                                       : "");
  read_accelerate_axes(r, sizes);
  if (type == "FSDP") {
    read_accelerate_fsdp(r, sizes, machines);
  } else if (type == "MEGATRON_LM") {
    read_accelerate_megatron(r, sizes);
  } else if (deep) {
    read_accelerate_deepspeed(r, sizes, precision);
    if (sizes.gpus && !sizes.gpus->from.empty()) r.take(sizes.gpus->from, "the number of GPUs");
    if (sizes.accumulation) r.take(accumulation, "microbatches in a step");
  } else {
    r.assume("plan.zero_stage", "0", "every process has a whole copy");
    r.assume("plan.overlap_gradients", "true", "PyTorch's DDP overlaps");
    r.assume("plan.gradient_bucket", "\"25 MiB\"", "PyTorch's DDP has buckets of 25 MiB");
  }
  read_rest(r);
  if (!deep) put_sizes(r, sizes);
}

}  // namespace orrery
