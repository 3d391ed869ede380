#include "framework/megatron_core/read.hpp"

#include <fmt/format.h>

#include <array>

namespace orrery {
namespace {

struct Foreign {
  std::string_view flag;
  const char* message;
};

// Flags that only runs have which plans do not: training.py, arguments.py and the configurations of
// NVIDIA/Megatron-LM@d98e8a64 name them.
constexpr std::array foreign{
    Foreign{"--perform-rl-step", "steps of reinforcement learning are not in plans yet"},
    Foreign{"--hybrid-layer-pattern", "models with state-space layers are not in plans yet"},
    Foreign{"--hybrid-override-pattern", "models with state-space layers are not in plans yet"},
    Foreign{"--is-hybrid-model", "models with state-space layers are not in plans yet"},
    Foreign{"--hybrid-attention-ratio", "models with state-space layers are not in plans yet"},
    Foreign{"--mamba-num-heads", "models with state-space layers are not in plans yet"},
    Foreign{"--experimental-attention-variant", "linear and sparse attention are not in plans yet"},
    Foreign{"--linear-attention-freq", "linear attention is not in plans yet"},
    Foreign{"--attention-output-gate", "gates behind attention are not in plans yet"},
    Foreign{"--encoder-num-layers", "models with an encoder and a decoder are not in plans yet"},
    Foreign{"--bert-no-binary-head", "BERT under Megatron-LM is not in plans yet"},
    Foreign{"--mask-prob", "models that restore masked words are not in plans under Megatron-LM yet"},
    Foreign{"--retro-project-dir", "models that retrieve text are not in plans yet"},
    Foreign{"--retro-add-retriever", "models that retrieve text are not in plans yet"},
    Foreign{"--img-h", "models that see images are not in plans under Megatron-LM yet"},
    Foreign{"--vision-model-type", "models that see images are not in plans under Megatron-LM yet"},
    Foreign{"--language-model-type", "models that see images are not in plans under Megatron-LM yet"},
    Foreign{"--model-provider", "models of several parts are not in plans yet"},
    Foreign{"--dataset-provider", "models of several parts are not in plans yet"},
    Foreign{"--heterogeneous-layers-config-path", "layers of different widths are not in plans yet"},
    Foreign{"--heterogeneous-layers-config-encoded-json", "layers of different widths are not in plans yet"},
    Foreign{"--moe-latent-size", "experts on a narrower stream are not in plans yet"},
    Foreign{"--export-kd-teacher-load", "distillation from a teacher model is not in plans yet"},
    Foreign{"--export-kd-cfg", "distillation from a teacher model is not in plans yet"},
    Foreign{"--logits-load-dir", "distillation from a teacher model is not in plans yet"},
    Foreign{"--enable-mhc-connections", "several residual streams are not in plans yet"},
    Foreign{"--freeze-all-layers", "training of some layers alone is not in plans yet"},
    Foreign{"--yaml-cfg", "the flags stand in another file, which is not read"},
    Foreign{"--max-tokens-to-oom", "the run answers prompts and trains nothing"},
    Foreign{"--num-tokens-to-generate", "the run answers prompts and trains nothing"},
    Foreign{"--skip-train", "the run trains nothing"},
    Foreign{"--teacher-model-config", "distillation from a teacher model is not in plans yet"},
    Foreign{"--decoder-num-layers", "models with an encoder and a decoder are not in plans yet"},
    Foreign{"--pipeline-model-parallel-split-rank", "models with an encoder and a decoder are not in plans yet"},
    // Megatron-LM itself stops at these.
    Foreign{"--batch-size", "the flag has been --micro-batch-size since 2021"},
    Foreign{"--warmup", "the flag has been --lr-warmup-fraction since 2021"},
    Foreign{"--model-parallel-size", "the flag has been --tensor-model-parallel-size since 2021"},
    Foreign{"--checkpoint-activations", "the flag has been --recompute-activations since 2022"}};

}  // namespace

bool refuse_foreign(MegatronFlags& f) {
  LaunchReading& r = f.reading();
  const auto rest = [&] { r.without_effect({"*"}, "nothing is planned"); };  // of all keys
  for (const Foreign& k : foreign) {
    if (!f.has(k.flag)) continue;
    f.error(k.flag, k.message);
    rest();
    return true;
  }
  if (f.on("--bf16") && f.on("--fp16")) {
    f.error("--fp16", "--bf16 and --fp16 contradict each other", {"Leave one of them out."});
    rest();
    return true;
  }
  const LaunchValue* program = r.file().find("launcher.program");
  for (const char* other : {"pretrain_bert", "pretrain_t5", "pretrain_ict", "pretrain_vision", "pretrain_vlm",
                            "pretrain_mamba", "pretrain_hybrid", "pretrain_retro", "pretrain_mimo", "train_rl"}) {
    if (program == nullptr || program->text.find(other) == std::string::npos) continue;
    r.error("launcher.program", fmt::format("models of {}.py are not in plans under Megatron-LM yet", other));
    rest();
    return true;
  }
  // GPT's tokenizers have a vocabulary with merges; word pieces alone are BERT's.
  if (const auto words = f.known_text("--vocab-file");
      words && words->ends_with("vocab.txt") && !f.has("--merge-file") && !f.has("--tokenizer-type")) {
    f.error("--vocab-file", "a vocabulary of word pieces is BERT's, which is not in plans under Megatron-LM yet");
    rest();
    return true;
  }
  if (const auto tokenizer = f.known_text("--tokenizer-type"); tokenizer && tokenizer->starts_with("Bert")) {
    f.error("--tokenizer-type", "BERT under Megatron-LM is not in plans yet");
    rest();
    return true;
  }
  for (const std::string& word : f.words("--spec")) {
    if (word.find("hybrid") == std::string::npos && word.find("mamba") == std::string::npos) continue;
    f.error("--spec", "models with state-space layers are not in plans yet");
    rest();
    return true;
  }
  return false;
}

}  // namespace orrery
