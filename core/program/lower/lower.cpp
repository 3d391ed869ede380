#include "core/program/lower/lower.hpp"

#include "core/program/lower/context.hpp"
#include "core/program/lower/gradient_reductions.hpp"
#include "core/program/lower/optimizer.hpp"
#include "core/program/lower/pipeline_transfers.hpp"
#include "core/program/lower/schedule.hpp"
#include "core/program/lower/setup.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery {
namespace lowering {
namespace {

/// Slot lists of one stage, written front to back.
class Stage {
 public:
  Stage(Context& c, const ModelBlocks& model, const SetupBlocks& setup, const OptimizerBlocks& optimizer,
        std::uint32_t stage)
      : c_(c),
        model_(model),
        setup_(setup),
        optimizer_(optimizer),
        stage_(stage),
        first_(stage == 0),
        last_(stage + 1 == c.stages),
        low_(first_layer(c.plan, stage)),
        count_((*c.plan.stage_layers)[stage]) {}

  RankClass build(BlockId begin, BlockId mean_loss) {
    RankClass out;
    list_ = &out.setup;
    each_module(setup_.embedding, setup_.layer, setup_.head);
    run(setup_.scalars);
    list_ = &out.step;
    if (last_) run(begin);
    each_module(setup_.clear_embedding, setup_.clear_layer, setup_.clear_head);
    buckets_ = build_buckets(c_, stage_);
    pipeline();
    if (c_.model.tied_embeddings && c_.stages > 1 && (first_ || last_)) run(build_tied_reduction(c_, first_));
    optimizer();
    if (last_) run(mean_loss);
    return out;
  }

 private:
  void run(BlockId block, std::uint32_t layer = 0, std::uint32_t microbatch = 0, std::uint32_t repeat = 1,
           std::int32_t step = 1) {
    if (repeat > 0) list_->push_back({block, layer, microbatch, repeat, step});
  }
  void each_module(BlockId embedding, BlockId layer, BlockId head) {
    if (first_) run(embedding);
    run(layer, low_, 0, count_);
    if (last_) run(head);
  }

  void pipeline() {
    const auto order = schedule_of(c_.plan.schedule)(stage_, c_.stages, c_.program.microbatches);
    const TransferBlocks transfers = build_transfers(c_, model_, stage_);
    list_->reserve(list_->size() + 4 * order.size() + 4 * std::size_t{count_} + 16);
    const std::uint32_t boundary = low_ + count_;
    for (const StageAction& action : with_transfers(order, stage_, c_.stages)) {
      const std::uint32_t m = action.microbatch;
      switch (action.kind) {
        case StageAction::Kind::receive_hidden: run(transfers.receive_hidden, low_, m); break;
        case StageAction::Kind::send_hidden: run(transfers.send_hidden, boundary, m); break;
        case StageAction::Kind::receive_gradient: run(transfers.receive_gradient, boundary, m); break;
        case StageAction::Kind::send_gradient: run(transfers.send_gradient, low_, m); break;
        case StageAction::Kind::forward:
          if (first_) run(model_.embedding_forward, 0, m);
          run(model_.layer_forward, low_, m, count_);
          if (last_) run(model_.head_forward, boundary, m);
          break;
        case StageAction::Kind::backward:
          // Schedules run backwards in ascending order, so this one completes the gradients.
          if (m + 1 == c_.program.microbatches) {
            last_backward(m);
          } else {
            backward(m);
          }
          break;
      }
    }
    if (!*c_.plan.overlap_gradients) {
      for (const Bucket& bucket : buckets_) reduce(bucket);
    }
  }

  void backward(std::uint32_t m) {
    if (last_) run(model_.head_backward, low_ + count_, m);
    run(model_.layer_backward, low_ + count_ - 1, m, count_, -1);
    if (first_) run(model_.embedding_backward, 0, m);
  }

  /// Backward of the last microbatch, each bucket's reduction issued as soon as
  /// its gradients are complete.
  void last_backward(std::uint32_t m) {
    if (!*c_.plan.overlap_gradients || !needs_reduction(c_)) {
      backward(m);
      return;
    }
    for (const Bucket& bucket : buckets_) {
      if (bucket.head) run(model_.head_backward, low_ + count_, m);
      run(model_.layer_backward, bucket.low_layer + bucket.layers - 1, m, bucket.layers, -1);
      if (bucket.embedding) run(model_.embedding_backward, 0, m);
      reduce(bucket);
    }
  }

  void reduce(const Bucket& bucket) {
    if (needs_reduction(c_)) run(bucket.reduce, bucket.low_layer);
  }

  void optimizer() {
    if (c_.factor) {
      run(optimizer_.clear_norm);
      each_module(optimizer_.norm_embedding, optimizer_.norm_layer, optimizer_.norm_head);
      run(optimizer_.reduce_norm);
    }
    run(optimizer_.advance);
    if (!c_.shard_states) {
      each_module(optimizer_.update_embedding, optimizer_.update_layer, optimizer_.update_head);
      return;
    }
    // Buckets upwards: the next forward pass needs the embedding first.
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      if (bucket->embedding) run(optimizer_.update_embedding);
      run(optimizer_.update_layer, bucket->low_layer, 0, bucket->layers);
      if (bucket->head) run(optimizer_.update_head);
      run(bucket->gather, bucket->low_layer);
    }
  }

  Context& c_;
  const ModelBlocks& model_;
  const SetupBlocks& setup_;
  const OptimizerBlocks& optimizer_;
  std::uint32_t stage_;
  bool first_, last_;
  std::uint32_t low_, count_;
  std::vector<Bucket> buckets_;
  std::vector<Slot>* list_ = nullptr;
};

}  // namespace
}  // namespace lowering

Program lower(const ModelSpec& model, const Workload& workload, const Plan& plan) {
  using namespace lowering;
  ORRERY_ASSERT(is_resolved(plan), plan.name);
  Program program;
  Context context(model, workload, plan, program);
  declare_parameters(context);
  const ModelBlocks blocks = build_tensor_1d(context);
  const SetupBlocks setup = build_setup(context);
  const BlockId begin = build_begin(context);
  const BlockId mean_loss = build_mean_loss(context);
  const OptimizerBlocks optimizer = build_optimizer(context);
  program.classes.reserve(context.stages);
  for (std::uint32_t stage = 0; stage < context.stages; ++stage) {
    program.classes.push_back(Stage(context, blocks, setup, optimizer, stage).build(begin, mean_loss));
  }
  return program;
}

}  // namespace orrery
