#pragma once

#include "planner/study/study.hpp"

namespace orrery {

// The functions of the table in studies.cpp, one for each row.
[[nodiscard]] StudyResult tensor_scaling_study(const Library&);
[[nodiscard]] StudyResult tensor_speedup_study(const Library&);
[[nodiscard]] StudyResult gpt3_gpus_study(const Library&);
[[nodiscard]] StudyResult gpt2_memory_study(const Library&);
[[nodiscard]] StudyResult gpt2_scaling_study(const Library&);
[[nodiscard]] StudyResult vit_batch_study(const Library&);
[[nodiscard]] StudyResult bert_sequence_study(const Library&);
[[nodiscard]] StudyResult bert_pipeline_study(const Library&);
[[nodiscard]] StudyResult peers_study(const Library&);
[[nodiscard]] StudyResult one_node_study(const Library&);
[[nodiscard]] StudyResult large_batch_study(const Library&);
[[nodiscard]] StudyResult llama_memory_study(const Library&);
[[nodiscard]] StudyResult optimizer_offload_study(const Library&);
[[nodiscard]] StudyResult gpt3_one_gpu_study(const Library&);
[[nodiscard]] StudyResult second_node_study(const Library&);
[[nodiscard]] StudyResult mlp_sharding_study(const Library&);
[[nodiscard]] StudyResult v_schedule_study(const Library&);
[[nodiscard]] StudyResult partial_nvlink_study(const Library&);
[[nodiscard]] StudyResult rails_study(const Library&);

}  // namespace orrery
