#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "core/spec/spec_check.hpp"
#include "framework/megatron_core/read.hpp"

// Stages and chunks: training/arguments.py and core/transformer/pipeline_parallel_layer_layout.py of
// NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

constexpr std::size_t longest_layout = 65536;

/// Puts what is repeated in place: "(ab)*2" is abab, "a*3" aaa.
std::optional<std::string> unrolled(const std::string& layout) {
  std::string out;
  for (std::size_t i = 0; i < layout.size();) {
    std::string part(1, layout[i]);
    if (layout[i] == '(') {
      const std::size_t shut = layout.find(')', i);
      if (shut == std::string::npos) return std::nullopt;
      const auto inside = unrolled(layout.substr(i + 1, shut - i - 1));
      if (!inside || inside->find('(') != std::string::npos) return std::nullopt;
      part = *inside;
      i = shut;
    }
    ++i;
    std::uint64_t times = 1;
    if (i + 1 < layout.size() && layout[i] == '*') {
      times = 0;
      for (++i; i < layout.size() && std::isdigit(static_cast<unsigned char>(layout[i])) != 0; ++i) {
        times = std::min<std::uint64_t>(times * 10 + static_cast<std::uint64_t>(layout[i] - '0'), longest_layout);
      }
    }
    if (out.size() + part.size() * times > longest_layout) return std::nullopt;
    for (std::uint64_t k = 0; k < times; ++k) out += part;
  }
  return out;
}

class Stages {
 public:
  Stages(MegatronFlags& f, std::uint64_t pipeline) : f_(f), p_(pipeline) {
    const ModelSpec* m = f.reading().known_model();
    layers_ = m == nullptr ? 0 : m->layers;
  }

  std::vector<std::uint64_t> read() {
    if (layers_ == 0) return {};
    result_ = {layers_};
    if (f_.has("--pipeline-model-parallel-layout")) {
      layout();
    } else {
      chunks();
      fit_chunks();
      uneven();
    }
    if (chunks_ > 1 && p_ > 1) {
      f_.reading().assume("plan.schedule", "\"interleaved\"", "several chunks on each rank");
      f_.set(from_, "plan.chunks", std::to_string(chunks_));
    } else {
      f_.reading().assume("plan.schedule", "\"1f1b\"", "one chunk on each rank");
    }
    const auto group = f_.whole(group_flag(), 1);
    if (group && *group != p_ && chunks_ > 1)
      f_.refuse(group_flag(), fmt::format("each chunk takes {} microbatches in a row", *group),
                fmt::format("{}, as many as there are pipeline ranks", p_));
    f_.take(group_flag(), "the interleaved schedule");
    return result_;
  }

 private:
  [[nodiscard]] const char* group_flag() const {
    return f_.has("--microbatch-group-size-per-vp-stage") ? "--microbatch-group-size-per-vp-stage"
                                                          : "--microbatch-group-size-per-virtual-pipeline-stage";
  }

  void layout() {
    constexpr const char* flag = "--pipeline-model-parallel-layout";
    const auto text = f_.text(flag);
    if (!text) return;
    const auto stages = megatron_layout(*text);
    if (!stages || stages->size() % p_ != 0) {
      return f_.error(flag, stages ? "the layout's stages are no multiple of the pipeline ranks" : "this is no layout",
                      {fmt::format("It is {}; there are {} pipeline ranks.", text->substr(0, 80), p_)});
    }
    std::vector<std::uint64_t> layers;
    bool pure = true;
    for (std::size_t s = 0; s < stages->size(); ++s) {
      const std::string& stage = (*stages)[s];
      layers.push_back(static_cast<std::uint64_t>(std::count(stage.begin(), stage.end(), 't')));
      // The embedding is in the first stage, what comes behind the layers in the last.
      pure = pure && (s == 0 || stage.find('E') == std::string::npos) &&
             (s + 1 == stages->size() || stage.find_first_of("mL") == std::string::npos);
    }
    const std::uint64_t sum = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
    if (sum != layers_) {
      return f_.error(flag, "the layout has another number of layers than the model",
                      {fmt::format("It has {}, the model {}.", sum, layers_)});
    }
    chunks_ = stages->size() / p_;
    from_ = flag;
    if (p_ == 1) {  // chunks on one rank follow each other as one
      chunks_ = 1;
      return f_.take(flag, "one stage");
    }
    result_ = layers;
    const std::string list = fmt::format("[{}]", fmt::join(layers, ", "));
    f_.set(flag, "plan.stage_layers", list);
    if (!pure)
      f_.refuse(flag, "the first stage has the embedding here, and the last one prediction modules and the head",
                "stage_layers = " + list);
  }

  void chunks() {
    constexpr const char* per_stage = "--num-layers-per-virtual-pipeline-stage";
    constexpr const char* count = "--num-virtual-stages-per-pipeline-rank";
    if (const auto n = f_.whole(count, 1, max_layers)) {
      chunks_ = *n;
      from_ = count;
    } else if (const auto layers = f_.whole(per_stage, 1, max_layers)) {
      const std::uint64_t all = layers_ + extra();
      if (all % (p_ * *layers) != 0) {
        return f_.error(per_stage, "the layers are no multiple of those of all virtual stages",
                        {fmt::format("{} layers, {} pipeline ranks, {} in each.", all, p_, *layers)});
      }
      chunks_ = all / (p_ * *layers);
      from_ = per_stage;
    }
    f_.take(count, fmt::format("{} chunks on each rank", chunks_));
    f_.take(per_stage, fmt::format("{} chunks on each rank", chunks_));
  }

  /// Fewer chunks, where the layers or the microbatches are too few for those of the flags.
  void fit_chunks() {
    if (chunks_ == 1 || p_ == 1) return;
    LaunchReading& r = f_.reading();
    const std::uint64_t ranks =
        r.plan_number("mesh.data", 1) * r.plan_number("mesh.expert", 1) * r.plan_number("mesh.replica", 1);
    const std::uint64_t each = ranks * r.plan_number("plan.microbatch_size", 1);
    const std::uint64_t rounds = r.plan_number("workload.batch", each) / each;
    if (rounds % p_ != 0 && f_.has(group_flag())) {
      f_.refuse(group_flag(), fmt::format("{} microbatches do not go {} at a time through the chunks", rounds, p_),
                "one chunk on each rank");
      chunks_ = 1;
    }
    if (p_ * chunks_ > layers_ + extra()) {
      const std::uint64_t asked = chunks_;
      while (chunks_ > 1 && (p_ * chunks_ > layers_ || layers_ % (p_ * chunks_) != 0)) --chunks_;
      f_.refuse(from_, fmt::format("{} chunks on each of {} ranks are more than {} layers", asked, p_, layers_),
                fmt::format("{} on each", chunks_));
      fitted_ = true;
    }
  }

  [[nodiscard]] std::uint64_t extra() const {
    if (fitted_) return 0;
    return (f_.on("--account-for-embedding-in-pipeline-split") ? 1U : 0U) +
           (f_.on("--account-for-loss-in-pipeline-split") ? 1U : 0U);
  }

  /// Layers of the first and the last rank; the others share the rest evenly. With chunks each is cut evenly.
  void uneven() {
    constexpr const char* first_flag = "--decoder-first-pipeline-num-layers";
    constexpr const char* last_flag = "--decoder-last-pipeline-num-layers";
    const auto first = f_.whole(first_flag, 1, max_layers), last = f_.whole(last_flag, 1, max_layers);
    const std::uint64_t counted = extra();
    for (const char* flag :
         {"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", first_flag, last_flag})
      f_.take(flag, "layers of stages");
    const std::uint64_t stages = p_ * chunks_;
    if (p_ == 1) {
      chunks_ = 1;
      return;
    }
    std::vector<std::uint64_t> layers;
    if (!first && !last) {
      if (fitted_ && layers_ % stages != 0) {
        for (std::uint64_t s = 0; s < stages; ++s) layers.push_back(layers_ / stages + (s < layers_ % stages ? 1 : 0));
      } else if ((layers_ + counted) % stages != 0) {
        return f_.error(from_.empty() ? "--pipeline-model-parallel-size" : from_,
                        "the layers are no multiple of the pipeline stages",
                        {fmt::format("{} layers over {} stages.", layers_ + counted, stages)});
      }
      if (layers.empty()) layers.assign(stages, (layers_ + counted) / stages);
      if (counted > 0 && f_.on("--account-for-embedding-in-pipeline-split")) --layers.front();
      if (counted > 0 && f_.on("--account-for-loss-in-pipeline-split")) --layers.back();
    } else {
      std::uint64_t rest = layers_, ranks = p_;
      for (const auto& n : {first, last}) {
        if (!n) continue;
        rest -= std::min(rest, *n);
        --ranks;
      }
      const std::uint64_t middle = ranks == 0 ? 0 : rest / ranks;
      const auto cut = [&](std::uint64_t n) { return n % chunks_ == 0 && n > 0; };
      if ((ranks > 0 && rest % ranks != 0) || (ranks == 0 && rest > 0) || (first && !cut(*first)) ||
          (last && !cut(*last)) || (ranks > 0 && !cut(middle))) {
        return f_.error(first ? first_flag : last_flag, "the layers cannot be shared out like this",
                        {fmt::format("{} layers over {} ranks with {} chunks each.", layers_, p_, chunks_)});
      }
      for (std::uint64_t s = 0; s < stages; ++s) {
        const std::uint64_t rank = s % p_;
        const std::uint64_t of = rank == 0 && first ? *first : rank + 1 == p_ && last ? *last : middle;
        layers.push_back(of / chunks_);
      }
    }
    result_ = layers;
    const std::string list = fmt::format("[{}]", fmt::join(layers, ", "));
    if (first || last)
      f_.set(first ? first_flag : last_flag, "plan.stage_layers", list);
    else
      f_.reading().assume("plan.stage_layers", list, "stages are even");
  }

  MegatronFlags& f_;
  std::uint64_t p_;
  std::uint64_t layers_ = 0;
  std::uint64_t chunks_ = 1;
  bool fitted_ = false;  ///< the embedding and the loss no longer count as layers
  std::string from_;
  std::vector<std::uint64_t> result_;
};

}  // namespace

std::optional<std::vector<std::string>> megatron_layout(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (c != ',' && c != ' ' && c != '"' && c != '\'') plain += c;
  }
  const auto flat = unrolled(plain);
  if (!flat || flat->find_first_not_of("EtmL|") != std::string::npos) return std::nullopt;
  std::vector<std::string> out(1);
  for (const char c : *flat) {
    if (c == '|')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::vector<std::uint64_t> read_megatron_stages(MegatronFlags& flags, std::uint64_t pipeline) {
  return Stages(flags, pipeline).read();
}

}  // namespace orrery
