#include "validate/framework_cell.hpp"

#include "validate/cell_words.hpp"

namespace orrery {
namespace {

using Rule = FrameworkRule;

bool names_build(std::string_view word) { return is_version(word) || is_commit(word); }

/// Takes the software around Megatron-LM: "torch 2.10.0 nv26.01, TE 2.11.0", "pytorch:20.12-py3, DDP-impl torch".
void take_surroundings(CellWords& words) {
  for (;;) {
    if (words.take("torch") || words.take("te")) {
      words.take_if(is_version);
      words.take_if([](std::string_view w) { return w.starts_with("nv") && is_version(w.substr(2)); });
    } else if (words.take("ddp-impl")) {
      if (!words.take("torch")) words.take("local");
    } else if (!words.take_if([](std::string_view w) { return w.starts_with("pytorch:"); })) {
      return;
    }
  }
}

std::optional<FrameworkCell> megatron_lm(CellWords& words) {
  if (words.take("main")) {
    words.take_if(is_commit);
    words.take_if(is_date);
    return FrameworkCell{Rule::megatron_main, "megatron-core"};
  }
  if (words.take("23e00ed0")) {
    take_surroundings(words);
    return FrameworkCell{Rule::megatron_simumax, "megatron-core"};
  }
  // Without a generation it may be either.
  bool old = words.take_if([](std::string_view w) {
    return w == "6985e589" || w == "8aa4619f" || w.starts_with("v1.") || w.starts_with("v2.");
  });
  words.take_remarks([&](std::string_view r) {
    const bool year = r == "2021" || r == "2022";
    old = old || year;
    return year || r == "sc21 readme";
  });
  take_surroundings(words);
  if (!old) return std::nullopt;
  return FrameworkCell{Rule::megatron_lm, "megatron-lm-2022"};
}

/// The release of a NeMo container, which decides its costs, as in "25.09"; 0 where the word is no release.
int release_of(std::string_view word) {
  if (word.size() < 5 || word[2] != '.' || !is_version(word)) return 0;
  const auto year = static_cast<int>(number_of_word(word.substr(0, 2)));
  const auto month = static_cast<int>(number_of_word(word.substr(3, 2)));
  return year < 20 || month < 1 || month > 12 ? 0 : 100 * year + month;
}
std::string_view nemo_program(int release) {
  if (release < 2509) return "nemo";
  return release < 2511 ? "megatron-bridge-25.09" : release < 2606 ? "megatron-bridge-25.11" : "megatron-bridge-26.06";
}

std::optional<FrameworkCell> automodel(CellWords& words) {
  words.take_if(names_build);
  words.take_remarks([](std::string_view r) { return r.starts_with("pytorch fsdp2"); });
  return FrameworkCell{Rule::automodel, "automodel"};
}

std::optional<FrameworkCell> nemo(CellWords& words) {
  if (words.take("automodel")) return automodel(words);
  const bool container = words.take("container");
  if (!container) words.take("megatron");
  std::string_view program;
  bool alike = true;
  while (const int release = release_of(words.next())) {
    const std::string_view of_it = nemo_program(release);
    alike = alike && (program.empty() || program == of_it);
    program = of_it;
    words.take(words.next());
  }
  bool mlperf = false;
  words.take_remarks([&](std::string_view r) {
    mlperf = mlperf || r.starts_with("mlperf ");
    const auto release = [&](std::string_view of) { return r.starts_with(of) && is_version(r.substr(of.size())); };
    return r == "megatron-bridge/core" || r == "megatron-bridge" || release("mlperf ") || release("dgxc ");
  });
  if (!alike || (container && program.empty())) return std::nullopt;
  if (program.empty()) program = "nemo";
  // Submissions to MLPerf train without the trainer's logs and waits.
  if (mlperf) program = program == "nemo" ? "nemo-mlperf" : "mlperf-5.1";
  return FrameworkCell{Rule::nemo, program};
}

std::optional<FrameworkCell> framework(CellWords& words) {
  if (words.take("megatron-lm")) return megatron_lm(words);
  if (words.take("megatron-core")) {
    words.take_if(is_version);
    // Its example for LLaMA follows NeMo's scripts for performance: Transformer Engine, all overlap on.
    bool as_nemo = false;
    words.take_remarks([&](std::string_view r) { return as_nemo = r == "examples/llama", as_nemo; });
    return FrameworkCell{Rule::megatron_core, as_nemo ? "nemo" : "megatron-core"};
  }
  if (words.take("megatron-deepspeed")) {
    bool bloom = false;
    words.take_remarks([&](std::string_view r) {
      bloom = bloom || r == "feb 2022";
      return r == "feb 2022";
    });
    return bloom ? FrameworkCell{Rule::megatron_deepspeed_bloom, "megatron-deepspeed-2022"}
                 : FrameworkCell{Rule::megatron_deepspeed, "megatron-lm-2022"};
  }
  if (words.take("nemo")) return nemo(words);
  if (words.take("llm-foundry/composer")) {
    if (!words.take("fsdp")) return std::nullopt;
    if (words.take("mixed_precision=default")) return FrameworkCell{Rule::llm_foundry_default, "llm-foundry"};
    if (words.take("mixed_precision=pure")) return FrameworkCell{Rule::llm_foundry_pure, "llm-foundry"};
    return std::nullopt;
  }
  if (words.take("torchtitan")) {
    if (!words.take_if(names_build)) words.take("main");
    words.take("/");
    if (words.take("torch")) words.take_if(names_build);
    words.take_remarks(is_date);
    return FrameworkCell{Rule::torchtitan, "torchtitan"};
  }
  if (words.take("maxtext")) {
    words.take_if(names_build);
    words.take_remarks([](std::string_view r) {
      constexpr std::string_view image = "nvcr jax ";
      return r == "jax" || r == "gpu-recipes" || (r.starts_with(image) && is_version(r.substr(image.size())));
    });
    return FrameworkCell{Rule::maxtext, ""};
  }
  if (words.take("internevo")) {
    words.take_if(is_date);
    return FrameworkCell{Rule::internevo, "internevo"};
  }
  if (words.take("fms-fsdp")) {
    words.take_remarks([](std::string_view r) { return r.starts_with("pytorch fsdp"); });
    return FrameworkCell{Rule::fms_fsdp, "torchtitan"};
  }
  if (words.take("automodel")) return automodel(words);
  if (words.take("megatron-swift")) {
    words.take_if(names_build);
    return FrameworkCell{Rule::megatron_swift, "nemo"};
  }
  if (words.take("deepspeed")) {
    words.take_if([](std::string_view w) { return w.starts_with("zero"); });
    words.take_remarks([](std::string_view r) { return r == "ms-swift" || r == "hf trainer"; });
    return FrameworkCell{Rule::deepspeed, "deepspeed"};
  }
  if (words.take("nanotron")) {
    words.take_if(is_date);
    words.take_if(names_build);
    return FrameworkCell{Rule::nanotron, "nanotron"};
  }
  if (words.take("oneflow-gpt")) {
    words.take_if(is_commit);
    return FrameworkCell{Rule::oneflow, ""};
  }
  return std::nullopt;
}

}  // namespace

std::optional<FrameworkCell> read_framework(std::string_view cell) {
  // In "25.02/25.04" there are two releases; "llm-foundry/Composer" is a name.
  const std::string_view first = cell.substr(0, cell.find(' '));
  CellWords words(cell, lower_case(first) == "nemo" ? "/" : "");
  const std::optional<FrameworkCell> read = framework(words);
  return read && words.done() ? read : std::nullopt;
}

}  // namespace orrery
