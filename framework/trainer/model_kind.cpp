#include "framework/trainer/model_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace orrery {
namespace {

struct Row {
  std::string_view word;  ///< of the name in small letters, with dashes at its ends
  std::string_view kind;
};
constexpr std::string_view seeing = "a model of images and text";
constexpr std::string_view hearing = "a model of sound and text";
constexpr std::string_view mixed = "a hybrid of attention and another token mixer";
constexpr std::string_view pair = "an encoder with a decoder";
constexpr std::array rows{
    Row{"-vl-", seeing},        Row{"-vision-", seeing},      Row{"-llava-", seeing},
    Row{"-pixtral-", seeing},   Row{"-internvl", seeing},     Row{"-paligemma", seeing},
    Row{"-idefics", seeing},    Row{"-ocr-", seeing},         Row{"-smolvlm", seeing},
    Row{"-glm-4.6v-", seeing},  Row{"-glm-4.5v-", seeing},    Row{"-glm-4v-", seeing},
    Row{"-minicpm-v-", seeing}, Row{"-paddleocr", seeing},    Row{"-gemma-3n-", seeing},
    Row{"-gemma-4-", seeing},   Row{"-kimi-vl-", seeing},     Row{"-qwen3vl", seeing},
    Row{"-qwen2vl", seeing},    Row{"-ministral-3-", seeing}, Row{"-voxtral-", hearing},
    Row{"-audio-", hearing},    Row{"-omni-", hearing},       Row{"-whisper-", hearing},
    Row{"-qwen3.5-", mixed},    Row{"-qwen3-next-", mixed},   Row{"-lfm2-", mixed},
    Row{"-falcon-h1-", mixed},  Row{"-jamba-", mixed},        Row{"-zamba", mixed},
    Row{"-mamba", mixed},       Row{"-nemotron-h-", mixed},   Row{"-nemotron-3-nano-", mixed},
    Row{"-granite-4", mixed},   Row{"-rwkv", mixed},          Row{"-kimi-linear-", mixed},
    Row{"-t5-", pair},          Row{"-flan-t5-", pair},       Row{"-bart-", pair},
    Row{"-mt5-", pair},
};

}  // namespace

std::string_view model_beyond_plans(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  std::string word = "-";
  for (const char c : slash == std::string::npos ? name : name.substr(slash + 1)) {
    word += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  word += '-';
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return word.find(r.word) != std::string::npos; });
  return at == rows.end() ? std::string_view() : at->kind;
}

}  // namespace orrery
