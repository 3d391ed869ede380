#include "planner/study/studies.hpp"

#include <fmt/format.h>

#include <cmath>

namespace orrery {

const std::vector<Study>& all_studies() {
  static const std::vector<Study> studies = {
      {"tensor-scaling", "communication of 1D, 2D, 2.5D and 3D tensor parallelism on 4 to 1024 devices",
       tensor_scaling_study},
      {"tensor-speedup", "speed of 2D, 2.5D and 3D against 1D on the published machines: 1.4x to 3.4x",
       tensor_speedup_study},
      {"peers", "how many peers a processor talks to: 999 in 1D, 9 in 3D", peers_study},
      {"gpt3-gpus", "GPT-3 on 128, 96 and 64 GPUs: memory, bubble and speed", gpt3_gpus_study},
      {"gpt3-one-gpu", "GPT-3 on a single A100: more than 100 years and 12 million dollars", gpt3_one_gpu_study},
      {"gpt2-memory", "activation memory of GPT-2 in 1D against 2D: 11 times less", gpt2_memory_study},
      {"gpt2-scaling", "GPT-2 from 8 to 512 GPUs: the rate per GPU rises with the model", gpt2_scaling_study},
      {"vit-batch", "batch of ViT on 64 GPUs in 2D against 1D: 14 times, 8 times", vit_batch_study},
      {"bert-sequence", "batch and sequence of BERT under sequence parallelism: 13.7 and 3 times", bert_sequence_study},
      {"bert-pipeline", "what sequence parallelism saves between pipeline stages", bert_pipeline_study},
      {"one-node", "4B and 10B models on 8 A100: what fits and what is fast", one_node_study},
      {"llama-memory", "LLaMA 7B and 65B on 32 GPUs: memory, samples per second, TFLOP/s", llama_memory_study},
      {"large-batch", "BERT with LAMB from batch 512 to 64k: 81 hours to 76 minutes", large_batch_study},
      {"optimizer-offload", "GPU memory that moving Adam's moments away frees", optimizer_offload_study},
      {"second-node", "1.1B data-parallel on 10 V100 in two nodes, slower than on 5 in one", second_node_study},
      {"mlp-sharding", "costs of two shardings of an MLP, and which one a planner should take", mlp_sharding_study},
      {"v-schedule", "idle times of the zero-bubble V: what a published search finds", v_schedule_study},
      {"partial-nvlink", "1D and 2D tensor parallelism where all GPUs have NVLink, and where pairs have it",
       partial_nvlink_study},
      {"rails", "a rail-optimized fabric against a plain fat tree of the same switches and cables", rails_study},
  };
  return studies;
}

StudyResult run_study(const Study& study, const Library& library) {
  StudyResult result = study.run(library);
  result.name = study.name;
  result.title = study.summary;
  return result;
}

std::string_view name_of(Evidence e) {
  switch (e) {
    case Evidence::announcement: return "announcement";
    case Evidence::abstract_: return "abstract";
    case Evidence::repository: return "repository";
    case Evidence::thread: return "issue thread";
    case Evidence::calculated: return "calculated";
    case Evidence::unverified: return "unverified";
  }
  return "";
}

std::string_view name_of(Verdict v) {
  switch (v) {
    case Verdict::follows: return "follows";
    case Verdict::in_part: return "in part";
    case Verdict::does_not_follow: return "does not follow";
    case Verdict::undecided: return "undecided";
  }
  return "";
}

Verdict judged(double computed, double published, double tolerance) {
  return std::abs(computed / published - 1.0) < tolerance ? Verdict::follows : Verdict::in_part;
}

Figure plain(std::string text) { return {std::move(text), std::nullopt}; }

Figure number(double value, int decimals, const std::string& unit) {
  return {fmt::format("{:.{}f}{}{}", value, decimals, unit.empty() || unit == "x" ? "" : " ", unit), value};
}

}  // namespace orrery
