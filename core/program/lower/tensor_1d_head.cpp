#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

void build_head(State& c) {
  const ModelSpec& m = c.model;
  const bool bert = m.architecture == Architecture::bert, vit = m.architecture == Architecture::vit;
  const bool sp = c.sequence_parallel;
  const HeadMatrix matrix = head_matrix(c);
  const ShardDim feature{m.hidden, m.hidden, c.layout.stream_features, false};
  const auto flat = [&](const char* name, Role role, DType dtype, std::uint64_t count) {
    Buffer b;
    b.name = name;
    b.role = role;
    b.scope = Scope::microbatch;
    b.dtype = dtype;
    b.count = count;
    return c.declare(std::move(b));
  };
  const auto stream_buffer = [&](const char* name, Role role, bool sharded) {
    return c.activation(name, role, Scope::microbatch, c.act, feature, sharded);
  };
  // Logits are wide, and targets are those of their rows.
  // An image's class is asked of its class token, the first of its rows.
  const std::uint64_t asked = vit ? c.sequences : c.tokens;
  const auto wide_buffer = [&](const char* name, Role role, DType dtype, const ShardDim& columns) {
    const BufferId id = c.activation(name, role, Scope::microbatch, dtype, columns, false);
    Buffer& b = c.program.buffers[index(id)];
    b.shard->dims[1] = wide_sequences(c);
    if (vit) {
      b.shard->dims[0] = {1, 1, {}, false};
      b.count = local_count(*b.shard, c.program.mesh, c.program.microbatches);
    }
    return id;
  };
  const BufferId targets = wide_buffer("targets", Role::data, DType::i32, {1, 1, {}, false});
  const BufferId norm_out = stream_buffer("head.norm.out", Role::activation, sp);
  const BufferId stats =
      flat("head.norm.stats", Role::statistic, c.state, c.rows * (m.norm == Norm::layer_norm ? 2 : 1));
  const BufferId gathered = sp ? stream_buffer("head.gathered", Role::workspace, false) : norm_out;
  const std::uint64_t padded = padded_vocabulary(c.plan, m);
  const BufferId logits =
      wide_buffer("logits", Role::activation, c.logits, {padded, m.vocabulary, c.layout.wide_features, false});
  const BufferId max = flat("logits.max", Role::statistic, c.state, asked);
  const BufferId sum = flat("logits.sum", Role::statistic, c.state, asked);
  const BufferId target_logit = flat("logits.target", Role::workspace, c.state, asked);
  const BufferId dx = stream_buffer("head.gradient", Role::workspace, false);
  const BufferId dx_part = sp ? stream_buffer("head.gradient.part", Role::workspace, true) : dx;
  const HeadTransform transform = bert ? declare_head_transform(c) : HeadTransform{};
  const BufferId norm_in = bert ? transform.act : c.hidden;
  const BufferId norm_in_gradient = bert ? transform.act_gradient : c.hidden_gradient;
  const NormSite norm{&c.head, "norm.weight", "norm.bias", "head.norm", Scope::microbatch};
  const Product product{matrix.module, matrix.slice, nullptr, c.hidden_width,
                        c.vocabulary,  true,         true,    Scope::microbatch};
  // A bias for each word or class; the product is then 1D's own.
  const bool bias = bert || vit;
  const Operand asked_rows{gathered, View::Use::read, 0, 0, asked * c.hidden_width, {}};
  const bool cut_vocabulary = group_size(c.program[c.vocabulary_group], c.plan.mesh) > 1;
  const auto entropy = [&](KernelKind kind) { return c.kernel(kind, Pass::loss, asked, c.vocabulary); };

  BlockBuilder f(c, "head.forward", Pass::forward, Section::model);
  if (bert) head_transform_forward(c, f, transform);
  c.sharding.norm_forward(c, f, norm, read(norm_in), write(norm_out), write(stats));
  if (sp) f.seam(Collective::Kind::all_gather, {read(norm_out), write(gathered)});
  if (bias) {
    Kernel k = c.kernel(KernelKind::gemm, Pass::forward, asked, c.vocabulary, c.hidden_width);
    k.options.transpose_b = k.options.bias = true;
    f.compute(k, {asked_rows, weight_of(c, *matrix.module, matrix.slice), write(logits),
                  weight_of(c, c.head, "output.bias")});
  } else {
    c.sharding.forward(c, f, product, gathered, logits);
  }
  f.compute(c.kernel(KernelKind::load_targets, Pass::loss, asked, 1), {write(targets)});
  f.compute(entropy(KernelKind::cross_entropy_max), {read(logits), write(max)});
  if (cut_vocabulary) {
    f.seam(Collective::Kind::all_reduce, c.vocabulary_group, {update(max)}, Collective::Reduction::max);
  }
  f.compute(entropy(KernelKind::cross_entropy_sum),
            {read(logits), read(max), read(targets), write(sum), write(target_logit)});
  if (cut_vocabulary) {
    f.seam(Collective::Kind::all_reduce, c.vocabulary_group, {update(sum), update(target_logit)});
  }
  f.compute(entropy(KernelKind::cross_entropy_loss),
            {read(max), read(sum), read(target_logit), read(targets), update(c.scalar.loss)});

  BlockBuilder b(c, "head.backward", Pass::input_gradient, Section::model);
  // The count was summed at the start of the step.
  if (c.is_several(c.batch_group)) b.enter_after_tail(collective_lane(c.program, c.batch_group));
  Kernel ce = entropy(KernelKind::cross_entropy_backward);
  if (c.scaled) {
    ce.options.scaled = true;
    b.compute(ce,
              {update(logits), read(max), read(sum), read(targets), read(c.scalar.count), read(c.scalar.loss_scale)});
  } else {
    b.compute(ce, {update(logits), read(max), read(sum), read(targets), read(c.scalar.count)});
  }
  if (sp) b.seam(Collective::Kind::all_gather, {read(norm_out), write(gathered)});
  if (bias) {
    Kernel k = c.kernel(KernelKind::gemm, Pass::input_gradient, asked, c.hidden_width, c.vocabulary);
    const std::uint64_t made = asked * c.hidden_width, all = c.tokens * c.hidden_width;
    if (made < all) {
      b.compute(c.kernel(KernelKind::fill, Pass::input_gradient, c.tokens - asked, c.hidden_width),
                {Operand{dx, View::Use::write, 0, made, all - made, {}}});
    }
    b.compute(
        k, {read(logits), weight_of(c, *matrix.module, matrix.slice), Operand{dx, View::Use::write, 0, 0, made, {}}});
  } else {
    c.sharding.input_gradient(c, b, product, read(logits), dx);
  }
  if (sp) {
    b.seam(Collective::Kind::reduce_scatter, {read(dx), write(dx_part)});
  } else if (c.tensor > 1) {
    b.seam(Collective::Kind::all_reduce, {Operand{dx, View::Use::accumulate, 0, 0, asked * c.hidden_width, {}}});
  }
  if (bias) {
    Kernel k = c.kernel(KernelKind::gemm, Pass::weight_gradient, c.vocabulary, c.hidden_width, asked);
    k.options.transpose_a = true;
    b.compute(k, {read(logits), asked_rows, gradient_of(c, *matrix.module, matrix.slice)});
    b.compute(c.kernel(KernelKind::bias_backward, Pass::weight_gradient, asked, c.vocabulary),
              {read(logits), gradient_of(c, c.head, "output.bias")});
  } else {
    c.sharding.weight_gradient(c, b, product, gathered, read(logits));
  }
  b.compute(c.kernel(KernelKind::fill, Pass::input_gradient, c.rows, c.hidden_width), {write(norm_in_gradient)});
  c.sharding.norm_backward(c, b, norm, read(dx_part), read(norm_in), read(stats), update(norm_in_gradient),
                           std::nullopt);
  if (bert) head_transform_backward(c, b, transform);

  c.blocks(Phase::forward).head = f.finish(c);
  c.blocks(Phase::backward).head = b.finish(c);
}

}  // namespace orrery::lowering
