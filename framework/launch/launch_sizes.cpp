#include "framework/launch/launch_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

using Size = LaunchSizes::Size;

/// A size that the file gives, or that --set gives in its place.
std::optional<std::uint64_t> given(LaunchReading& r, const std::optional<Size>& size, std::string_view plan_key) {
  if (size) return size->value;
  return r.given(plan_key);
}

class Sizes {
 public:
  Sizes(LaunchReading& reading, const LaunchSizes& sizes) : r_(reading), s_(sizes) {
    micro_ = given(r_, s_.micro, "plan.microbatch_size");
    batch_ = given(r_, s_.batch, "workload.batch");
    if (s_.accumulation) accumulation_ = s_.accumulation->value;
    follows_ = !micro_ || !batch_;
  }

  void put() {
    if (!axis(s_.tensor, "tensor") || !axis(s_.pipeline, "pipeline") || !axis(s_.context, "context") ||
        !axis(s_.expert, "expert") || !axis(s_.replica, "replica") || !put_devices() || !put_batch()) {
      speak_of_the_rest();
      return;
    }
    put_sequence();
    std::string order;
    for (const std::string& name : s_.order) {
      if (name != "data" && !r_.is_set("mesh." + name)) continue;
      order += fmt::format("{}\"{}\"", order.empty() ? "" : ", ", name);
    }
    r_.assume("mesh.order", "[" + order + "]", "as this framework lays out ranks");
  }

 private:
  /// After a mistake: no size is an unknown key.
  void speak_of_the_rest() {
    for (const Size* size : {&s_.tensor, &s_.pipeline, &s_.context, &s_.expert, &s_.replica}) {
      if (!size->from.empty()) r_.take(size->from, "");
    }
    for (const auto* size : {&s_.data, &s_.gpus, &s_.micro, &s_.accumulation, &s_.batch, &s_.sequence}) {
      if (*size && !(*size)->from.empty()) r_.take((*size)->from, "");
    }
  }

  /// Puts a size of an axis in place; one that nothing says is left out.
  bool axis(const Size& size, const char* name) {
    if (size.value == 0 || size.value > plan_size_limit) {
      r_.error(size.from, fmt::format("{} is out of range", size.from),
               {fmt::format("It is {}; from 1 to {} is allowed.", size.value, plan_size_limit)});
      return false;
    }
    const std::string key = std::string("mesh.") + name;
    if (!size.from.empty()) r_.set(size.from, key, std::to_string(size.value));
    return true;
  }

  /// Ranks that take other sequences follow from the number of devices, or the other way round.
  bool put_devices() {
    const std::uint64_t model_ranks = s_.tensor.value * s_.pipeline.value * s_.context.value;
    const std::uint64_t copies = s_.replica.value * s_.expert.value;
    const std::uint64_t unit = model_ranks * copies;
    if (unit > plan_size_limit) {
      r_.diagnostics().error("launch.sizes", "the sizes of the file need too many GPUs",
                             {fmt::format("They multiply to {}.", unit)});
      return false;
    }
    std::optional<std::uint64_t> gpus = r_.options().gpus;
    if (s_.gpus && !s_.gpus->from.empty()) r_.take(s_.gpus->from, "the number of GPUs");
    if (!gpus && s_.gpus) gpus = s_.gpus->value;
    if (!gpus && s_.data) gpus = unit * s_.data->value;
    const std::uint64_t a = accumulation_.value_or(1);
    if (!gpus && micro_ && batch_ && s_.accumulation && *batch_ % (*micro_ * a * copies) == 0) {
      gpus = model_ranks * (*batch_ / (*micro_ * a));
    }
    if (!gpus) {
      constexpr std::uint64_t node = 8;
      gpus = (node + unit - 1) / unit * unit;
      // A batch that fewer ranks share out evenly is the better sign.
      const std::uint64_t sequences = micro_.value_or(1) * a * copies;
      while (batch_ && *gpus > unit && *batch_ % (sequences * (*gpus / unit)) != 0) *gpus -= unit;
      r_.assume("gpus", std::to_string(*gpus), "the file does not say how many GPUs (--gpus)");
    }
    if (*gpus % unit != 0 || *gpus == 0) {
      r_.diagnostics().error(
          "launch.gpus", fmt::format("{} GPUs are no multiple of the file's sizes", *gpus),
          {fmt::format("tensor {} x pipeline {} x context {} x replica {} x expert {} is {}.", s_.tensor.value,
                       s_.pipeline.value, s_.context.value, s_.replica.value, s_.expert.value, unit)});
      return false;
    }
    data_ = *gpus / unit;
    if (s_.data && s_.data->value != data_) {
      r_.error(s_.data->from, "the data-parallel size is not what the number of GPUs leaves",
               {fmt::format("It is {}; {} GPUs over {} leave {}.", s_.data->value, *gpus, unit, data_)});
      return false;
    }
    if (s_.data && !s_.data->from.empty()) r_.set(s_.data->from, "mesh.data", std::to_string(data_));
    r_.assume("mesh.data", std::to_string(data_), fmt::format("{} GPUs over {}", *gpus, unit));
    r_.assume("gpus", std::to_string(*gpus), "");
    return true;
  }

  bool put_batch() {
    const std::uint64_t ranks = data_ * s_.replica.value * s_.expert.value;
    const auto multiple = [](std::uint64_t a, std::uint64_t b) { return b != 0 && a % b == 0; };
    if (!micro_ && batch_ && accumulation_ && multiple(*batch_, ranks * *accumulation_)) {
      micro_ = *batch_ / (ranks * *accumulation_);
    }
    if (!micro_) {
      micro_ = 1;
      r_.assume("plan.microbatch_size", "1", "the file does not say it (--set mbs=N)");
    }
    if (!batch_) {
      batch_ = *micro_ * accumulation_.value_or(1) * ranks;
      r_.assume(
          "workload.batch", std::to_string(*batch_),
          fmt::format("a microbatch of {} x {} accumulated x {} ranks", *micro_, accumulation_.value_or(1), ranks));
    }
    if (accumulation_ && *batch_ != *micro_ * *accumulation_ * ranks && s_.batch) {
      r_.error(s_.batch->from, "batch, microbatch and accumulation contradict each other",
               {fmt::format("{} is not {} x {} x {} data-parallel ranks.", *batch_, *micro_, *accumulation_, ranks)});
      return false;
    }
    const auto put = [&](const std::optional<Size>& size, const char* key, std::uint64_t value) {
      if (size && !size->from.empty()) r_.set(size->from, key, std::to_string(value));
      r_.assume(key, std::to_string(value), size || follows_ ? "from the other sizes" : "as --set says");
    };
    put(s_.micro, "plan.microbatch_size", *micro_);
    put(s_.batch, "workload.batch", *batch_);
    if (s_.accumulation && !s_.accumulation->from.empty()) r_.take(s_.accumulation->from, "microbatches in a step");
    return true;
  }

  void put_sequence() {
    if (s_.sequence && !s_.sequence->from.empty()) {
      r_.set(s_.sequence->from, "workload.sequence", std::to_string(s_.sequence->value));
      return;
    }
    if (const auto said = r_.given("workload.sequence")) {
      r_.assume("workload.sequence", std::to_string(*said), "as --set says");
      return;
    }
    constexpr std::uint64_t usual = 4096;
    const ModelSpec* model = r_.known_model();
    const std::uint64_t positions = model != nullptr && model->max_positions > 0 ? model->max_positions : usual;
    r_.assume("workload.sequence", std::to_string(std::min(usual, positions)),
              "the file does not say it (--set sequence=N)");
  }

  LaunchReading& r_;
  const LaunchSizes& s_;
  std::optional<std::uint64_t> micro_, accumulation_, batch_;
  std::uint64_t data_ = 1;
  bool follows_ = false;  ///< a size of the batch follows from the others
};

}  // namespace

std::optional<LaunchSizes::Size> launcher_gpus(LaunchReading& r) {
  constexpr const char* key = "launcher.gpus";
  std::optional<LaunchSizes::Size> out;
  if (r.options().gpus) {
    if (r.file().find(key) != nullptr) r.take(key, "the number of GPUs, in whose place --gpus stands");
  } else if (const auto gpus = r.whole(key, 1, plan_size_limit)) {
    out = LaunchSizes::Size{*gpus, key};
    r.take(key, "the number of GPUs");
  }
  r.without_effect({"launcher.*"}, "it starts the processes");
  return out;
}

void put_sizes(LaunchReading& reading, const LaunchSizes& sizes) { Sizes(reading, sizes).put(); }

std::optional<ExpertRanks> expert_ranks(std::uint64_t ranks, std::uint64_t tensor, std::uint64_t context) {
  if (ranks == 0 || ranks % tensor != 0) return std::nullopt;
  ranks /= tensor;
  const bool over_context = ranks > 1 && context > 1;
  if (over_context && ranks % context != 0) return std::nullopt;
  return ExpertRanks{over_context ? ranks / context : ranks, folding_over(over_context, tensor > 1)};
}

void lay_out_experts(LaunchReading& r, LaunchSizes& sizes, const std::optional<LaunchSizes::Size>& cut) {
  const bool whole = cut && cut->value == 1 && sizes.tensor.value > 1;
  const auto laid = expert_ranks(sizes.expert.value, whole ? sizes.tensor.value : 1, sizes.context.value);
  if (cut && cut->value == sizes.tensor.value) r.take(cut->from, "as tensor parallelism");
  if (cut && cut->value != sizes.tensor.value && !(whole && laid)) {
    r.refuse(cut->from, "experts cut by some tensor ranks, or on a part of them, are not in plans",
             "experts cut as other weights are");
  } else if (laid && laid->folding != ExpertFolding::none) {
    r.set(whole ? cut->from : sizes.expert.from, "plan.expert_folding", fmt::format("\"{}\"", name_of(laid->folding)));
    sizes.expert.value = laid->expert;
  }
}

std::optional<std::uint64_t> laid_out_expert_ranks(const Plan& plan) {
  const AxisList axes = expert_axes(plan);
  const Mesh& mesh = plan.mesh;
  if (mesh.size(Axis::expert) > 1 && mesh.size(Axis::context) > 1 && !contains(axes, Axis::context)) {
    return std::nullopt;
  }
  return size(mesh, axes);
}

}  // namespace orrery
