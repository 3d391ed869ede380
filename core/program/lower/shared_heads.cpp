#include "core/program/lower/shared_heads.hpp"

namespace orrery::lowering {

SharedHeads::SharedHeads(State& s) : s_(s) {
  const std::uint64_t all = s.projected * s.tensor;
  const auto part = [&](const char* name) {
    const BufferId id = layer_buffer(s, name, Role::workspace, s.act, s.tokens * s.projected);
    s.program.buffers[index(id)].shard =
        Shard{position_dim(s, Rows::context), wide_sequences(s), {all, all, s.layout.wide_features, false}};
    return id;
  };
  const auto whole = [&](const char* name) { return layer_buffer(s, name, Role::workspace, s.act, s.tokens * all); };
  product_ = part("qkv.product");
  parts_ = whole("qkv.gathered");
  parts_gradient_ = whole("qkv.gathered.gradient");
  product_gradient_ = part("qkv.product.gradient");
}

Kernel SharedHeads::kernel(Pass pass) const {
  return sharing_kernel(s_, local_heads(s_), pass, s_.tensor, s_.projected);
}

void SharedHeads::forward(BlockBuilder& b, BufferId qkv) const {
  b.seam(Collective::Kind::all_gather, {read(product_), write(parts_)});
  b.compute(kernel(Pass::forward), {read(parts_), write(qkv)});
}

BufferId SharedHeads::backward(BlockBuilder& b, BufferId qkv_gradient) const {
  b.compute(kernel(Pass::input_gradient), {read(qkv_gradient), write(parts_gradient_)});
  b.seam(Collective::Kind::reduce_scatter, {read(parts_gradient_), write(product_gradient_)});
  return product_gradient_;
}

}  // namespace orrery::lowering
