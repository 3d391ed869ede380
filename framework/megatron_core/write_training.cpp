#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/launch/plan_refusals.hpp"
#include "framework/megatron_core/flag_writer.hpp"

namespace orrery {
namespace {

void precision(FlagWriter& w) {
  const bool wide = gradient_dtype(w.workload()) == DType::f32;
  switch (w.workload().precision) {
    case Precision::fp64:
      w.refuse("workload.precision", "precision", "Megatron-LM does not train in fp64", {"Use fp32, bf16 or fp16."});
      return;
    case Precision::fp32: return;
    case Precision::fp8:
    case Precision::bf16:
      w.flag("--bf16");
      if (w.workload().precision == Precision::fp8) w.flag("--fp8-format", "hybrid");
      // Sums in f32 are the target's default for bf16; 16-bit sums have a flag.
      if (!wide) w.flag("--grad-reduce-in-bf16");
      return;
    case Precision::fp16:
      w.flag("--fp16");
      if (wide) w.flag("--accumulate-allreduce-grads-in-fp32");
      w.flag("--initial-loss-scale", w.workload().loss_scale);
      w.flag("--loss-scale-window", w.workload().loss_scale_window);
      return;
  }
}

void learning_rate(FlagWriter& w) {
  const LearningRateSchedule& s = w.workload().schedule;
  switch (s.kind) {
    case ScheduleKind::constant: w.flag("--lr-decay-style", "constant"); break;
    case ScheduleKind::linear: w.flag("--lr-decay-style", "linear"); break;
    case ScheduleKind::cosine: w.flag("--lr-decay-style", "cosine"); break;
  }
  if (s.warmup_steps > 0) w.flag("--lr-warmup-iters", s.warmup_steps);
  if (s.kind == ScheduleKind::constant) return;
  w.flag("--lr-decay-iters", s.total_steps);
  w.flag("--min-lr", w.workload().optimizer.learning_rate * s.minimum_ratio);
}

void optimizer(FlagWriter& w) {
  const Optimizer& o = w.workload().optimizer;
  switch (o.kind) {
    case OptimizerKind::adam:
      w.flag("--optimizer", "adam");
      w.flag("--adam-beta1", o.beta1);
      w.flag("--adam-beta2", o.beta2);
      w.flag("--adam-eps", o.epsilon);
      break;
    case OptimizerKind::lamb:
    case OptimizerKind::lars:
    case OptimizerKind::adafactor:
      w.refuse("workload.optimizer", "optimizer", fmt::format("Megatron-LM has no {}", name_of(o.kind)),
               {"Use adam, or sgd."});
      break;
    case OptimizerKind::sgd:
      if (o.weight_decay != 0.0) {
        w.refuse("workload.weight_decay", "optimizer", "Megatron-LM's SGD adds weight decay to the gradient",
                 {fmt::format("weight_decay is {}; here it is decoupled from momentum.", o.weight_decay),
                  "Set weight_decay to 0, or use adam."});
      }
      w.flag("--optimizer", "sgd");
      w.flag("--sgd-momentum", o.momentum);
      break;
  }
  w.flag("--lr", o.learning_rate);
  w.flag("--weight-decay", o.weight_decay);
  w.flag("--clip-grad", w.workload().clip_norm.value_or(0.0));
  learning_rate(w);
  w.flag("--seed", w.workload().seed);
}

}  // namespace

void write_megatron_states(FlagWriter& w) {
  const Workload& x = w.workload();
  if (x.optimizer.kind == OptimizerKind::sgd && zero_in_force(w.plan()) > 0) {
    w.refuse("plan.zero_stage", "optimizer", "Megatron-LM's distributed optimizer is Adam only",
             {"Set zero_stage to 0, or use adam."});
  }
  const DType means = moment_dtype(x, 0), squares = moment_dtype(x, 1);
  const bool narrow = means != state_dtype(x) || squares != state_dtype(x);
  const bool away = w.plan().offload_states.value_or(0) > 0;
  if (!narrow && !away) return;
  if (means == DType::u8) return;  // refused with the workload
  // Where no ranks share weights, the optimizer that knows of types is there all the same.
  const bool alone = shard_axes_of(w.plan()).empty();
  if (x.optimizer.kind != OptimizerKind::adam || (!alone && w.plan().zero_stage != 1)) {
    w.refuse("workload.moment_dtype", "optimizer",
             "Megatron-LM keeps narrow or offloaded states with Adam's distributed optimizer alone",
             {"Use adam and zero_stage 1, or leave out moment_dtype and offload_states."});
    return;
  }
  if (alone) w.flag("--use-distributed-optimizer");
  w.flag("--use-precision-aware-optimizer");
  w.flag("--no-store-param-remainders");
  if (!narrow) return;
  w.flag("--exp-avg-dtype", means == DType::bf16 ? "bf16" : "fp8");
  w.flag("--exp-avg-sq-dtype", squares == DType::bf16 ? "bf16" : "fp16");
}

void write_megatron_training(FlagWriter& w) {
  if (!w.workload().master_weights) {
    w.refuse("workload.master_weights", "precision", "Megatron-LM is written with fp32 copies of the weights",
             {"Leave out master_weights."});
  }
  if (w.workload().moment_dtype == DType::u8) {
    w.refuse("workload.moment_dtype", "optimizer", "Megatron-LM has no moments in codes of a byte",
             {"Set moment_dtype to f8, or leave it out."});
  }
  precision(w);
  optimizer(w);
}

}  // namespace orrery
