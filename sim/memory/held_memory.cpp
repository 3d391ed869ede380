#include "sim/memory/held_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

const Kernel* kernel_of(const Block& block, const Op& op) {
  const auto* compute = std::get_if<Compute>(&op.action);
  return compute != nullptr ? &block.kernels[compute->kernel] : nullptr;
}

/// The buffer to which an op adds a weight gradient, if it does.
const Buffer* gradient_of(const Program& program, const Block& block, const Op& op) {
  for (std::uint32_t v = op.views.first; v < op.views.first + op.views.count; ++v) {
    const Buffer& b = program[block.views[v].buffer];
    if (b.role == Role::gradient && block.views[v].use != View::Use::read) return &b;
  }
  return nullptr;
}

/// Whether the op makes the buffer anew.
bool writes(const Block& block, const Op& op, BufferId what) {
  const auto first = block.views.begin() + op.views.first;
  return std::any_of(first, first + op.views.count,
                     [&](const View& v) { return v.buffer == what && v.use == View::Use::write; });
}

/// The type of the weights whose gradients `gradient` holds.
DType weight_type(const Program& program, const Buffer& gradient) {
  for (const Buffer& b : program.buffers) {
    if (b.role == Role::weight && b.parameters == gradient.parameters) return b.dtype;
  }
  return gradient.dtype;
}

// Names: [mark of a microbatch | buffer | layer, 20 bits | microbatch, 24 bits].
constexpr unsigned layer_at = 24, buffer_at = 44;

bool is_head(const Program& program, const Buffer& gradient) {
  return gradient.parameters && !of_layers(program.parameter_tables[*gradient.parameters]);
}

}  // namespace

HeldMemory::HeldMemory(const Program& program, const FrameworkMemory& framework)
    : program_(program),
      shares_vocabulary_(program.mesh.size(Axis::tensor) > 1),
      fused_(framework.cross_entropy == CrossEntropy::fused) {
  if (framework.workspaces.base() > 0.0) {
    workspace_ =
        own_tensor("workspaces of matrix products", 0, 0, static_cast<std::uint64_t>(framework.workspaces.base()));
  }
  read_logits(framework);
  blocks_.resize(program.blocks.size());
  growth_.assign(blocks_.size(), 0);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    read_block(program.blocks[b], framework, blocks_[b]);
    for (const Step& s : blocks_[b]) {
      if (!s.stays) growth_[b] += (s.alloc ? 1 : -1) * static_cast<std::int64_t>(s.bytes);
    }
  }
}

TensorId HeldMemory::tensor_of(std::uint64_t name) const {
  if (name >= name_of_own(0)) return {{}, static_cast<std::uint32_t>(name - name_of_own(0))};
  const std::uint64_t number = name & ~of_microbatch;
  return {{static_cast<BufferId>(number >> buffer_at), static_cast<std::uint32_t>(number >> layer_at & 0xfffffU),
           static_cast<std::uint32_t>(number & 0xffffffU)},
          {}};
}

/// The name of an instance in whichever layer and microbatch the block runs.
HeldMemory::Step HeldMemory::step_of(bool alloc, BufferId what, std::int8_t layer_shift, std::uint64_t bytes) const {
  const Scope scope = program_[what].scope;
  Step s;
  s.name = tensor_name(NameOwner::program, std::uint64_t{index(what)} << buffer_at);
  if (per_layer(scope)) {
    s.each_layer = 1ULL << layer_at;
    s.name += static_cast<std::uint64_t>(std::int64_t{layer_shift}) << layer_at;
  }
  if (per_microbatch(scope)) {
    s.each_microbatch = 1;
    s.name += of_microbatch;
  }
  s.bytes = bytes;
  s.alloc = alloc;
  return s;
}

HeldMemory::Step HeldMemory::step_of(bool alloc, std::uint32_t own) const {
  Step s;
  s.name = name_of_own(own);
  s.own = own;
  s.bytes = own_[own].bytes;
  s.alloc = alloc;
  return s;
}

std::uint64_t HeldMemory::bytes_of(const TensorId& id) const {
  if (id.own) return own_[*id.own].bytes;
  const std::uint64_t logits = logits_[index(id.instance.buffer)];
  return fused_ && logits > 0 ? logits : orrery::bytes_of(program_[id.instance.buffer]);
}

std::uint32_t HeldMemory::own_tensor(std::string name, std::uint64_t rows, std::uint64_t columns, std::uint64_t bytes) {
  own_.push_back({std::move(name), rows, columns, bytes});
  return static_cast<std::uint32_t>(own_.size() - 1);
}

/// Logits are the operand that a cross-entropy turns into its gradient. In the weights' type they are as wide as the
/// activations that they are made from.
void HeldMemory::read_logits(const FrameworkMemory& framework) {
  logits_.assign(program_.buffers.size(), 0);
  if (framework.cross_entropy == CrossEntropy::in_place) return;
  for (const Block& block : program_.blocks) {
    for (const Op& op : block.ops) {
      const Kernel* k = kernel_of(block, op);
      if (k == nullptr || k->kind != KernelKind::cross_entropy_backward) continue;
      const BufferId logits = block.views[op.views.first].buffer;
      DType weights = program_[logits].dtype;
      for (const Buffer& b : program_.buffers) {
        if (b.role == Role::weight && b.parameters) weights = b.dtype;
      }
      // Wider weights need no copy in fp32.
      if (size_of(weights) < size_of(program_[logits].dtype)) {
        logits_[index(logits)] = program_[logits].count * size_of(weights);
      }
    }
  }
}

void HeldMemory::hold_during(std::uint32_t own, std::vector<Step>& into) const {
  into.push_back(step_of(true, own));
  into.push_back(step_of(false, own));
}

std::uint32_t HeldMemory::hold(std::string name, std::uint64_t bytes, std::vector<Step>& into) {
  const std::uint32_t own = own_tensor(std::move(name), 0, 0, bytes);
  into.push_back(step_of(true, own));
  return own;
}

/// Before the kept tensor come `product` bytes of the head's product, which the caller holds until the loss is there,
/// and the tensors that lead from one to the other.
void HeldMemory::begin_logits(const Buffer& buffer, std::uint64_t product, CrossEntropy entropy,
                              std::vector<Step>& into, std::vector<Step>& at_end) {
  const auto until_end = [&](const char* what, std::uint64_t bytes) {
    at_end.push_back(step_of(false, hold(fmt::format("{} ({})", buffer.name, what), bytes, into)));
  };
  until_end("product", product);
  if (entropy != CrossEntropy::eager) return;
  until_end("copy", orrery::bytes_of(buffer));
  if (shares_vocabulary_) {
    until_end("shifted", orrery::bytes_of(buffer));
    hold_during(own_tensor(buffer.name + " (exponentials of the shifted)", 0, 0, orrery::bytes_of(buffer)), into);
  }
}

/// The tensors that were kept for the gradient are freed when it has been converted.
void HeldMemory::turn_into_gradient(const View& logits, CrossEntropy entropy, std::vector<Step>& into,
                                    std::vector<Step>& at_end) {
  const Buffer& buffer = program_[logits.buffer];
  const std::uint64_t kept = orrery::bytes_of(buffer), converted = logits_[index(logits.buffer)];
  const auto let_go = [&](std::uint32_t own) { into.push_back(step_of(false, own)); };
  std::optional<std::uint32_t> of_copy;
  if (entropy == CrossEntropy::eager) {
    const std::uint32_t of_loss = hold(buffer.name + " (gradient of the log-softmax)", kept, into);
    std::optional<std::uint32_t> sum;
    if (shares_vocabulary_) {
      const std::uint32_t exponentials = hold(buffer.name + " (exponentials)", kept, into);
      sum = hold(buffer.name + " (sum)", kept, into);
      let_go(exponentials);
    }
    of_copy = hold(buffer.name + " (gradient of the copy)", kept, into);
    if (sum) let_go(*sum);
    let_go(of_loss);
  }
  const auto free_kept = [&] { into.push_back(step_of(false, logits.buffer, logits.layer_shift, kept)); };
  if (of_copy) free_kept();
  const std::uint32_t gradient = hold(buffer.name + " (gradient)", converted, into);
  of_copy ? let_go(*of_copy) : free_kept();
  at_end.push_back(step_of(false, gradient));
}

void HeldMemory::read_block(const Block& block, const FrameworkMemory& framework, std::vector<Step>& into) {
  std::vector<Step> at_end;
  std::vector<Step> of_piece;  // what ends with a piece of the logits: with its loss, then with its gradient
  const auto end_piece = [&] {
    into.insert(into.end(), of_piece.begin(), of_piece.end());
    of_piece.clear();
  };
  const bool in_fp32 = framework.cross_entropy == CrossEntropy::plain || framework.cross_entropy == CrossEntropy::eager;
  std::optional<BufferId> replaced;  // fp32 logits, given back when their gradient has been converted
  for (const Op& op : block.ops) {
    const auto* alloc = std::get_if<Alloc>(&op.action);
    const auto* free = std::get_if<Free>(&op.action);
    if (alloc != nullptr || free != nullptr) {
      const BufferId what = alloc != nullptr ? alloc->what : free->what;
      const std::int8_t shift = alloc != nullptr ? alloc->layer_shift : free->layer_shift;
      const Buffer& buffer = program_[what];
      const std::uint64_t bytes = bytes_of(TensorId{{what, 0, 0}, {}});
      if (buffer.tier != Tier::device || bytes == 0 || replaced == what) continue;
      if (alloc != nullptr && in_fp32 && logits_[index(what)] > 0) {
        begin_logits(buffer, logits_[index(what)], framework.cross_entropy, into, of_piece);
      }
      into.push_back(step_of(alloc != nullptr, what, shift, bytes));
      continue;
    }
    const Kernel* k = kernel_of(block, op);
    if (k == nullptr) continue;
    if (replaced && writes(block, op, *replaced)) {
      end_piece();
      const Buffer& buffer = program_[*replaced];
      begin_logits(buffer, logits_[index(*replaced)], framework.cross_entropy, into, of_piece);
      into.push_back(step_of(true, *replaced, 0, orrery::bytes_of(buffer)));
      replaced.reset();
    }
    if (k->kind == KernelKind::cross_entropy_backward && in_fp32 &&
        logits_[index(block.views[op.views.first].buffer)] > 0) {
      const View& logits = block.views[op.views.first];
      end_piece();
      turn_into_gradient(logits, framework.cross_entropy, into, of_piece);
      replaced = logits.buffer;
    }
    if (framework.weight_gradients == WeightGradients::in_place) continue;
    const bool product = k->kind == KernelKind::gemm || k->kind == KernelKind::expert_gemm;
    const bool lookup = k->kind == KernelKind::embed_backward;
    const Buffer* gradient = gradient_of(program_, block, op);
    if (gradient == nullptr || (!lookup && !(product && k->pass == Pass::weight_gradient))) continue;
    // In a lookup the table is [vocabulary, hidden].
    const std::uint64_t rows = lookup ? k->depth : k->rows, columns = k->columns;
    const std::uint64_t bytes = rows * columns * size_of(weight_type(program_, *gradient));
    const bool apart = framework.weight_gradients == WeightGradients::apart;
    if (apart || lookup) {
      hold_during(own_tensor(fmt::format("gradient {}x{}", rows, columns), rows, columns, bytes), into);
    } else if (is_head(program_, *gradient)) {
      const std::uint32_t own = own_tensor(fmt::format("placeholder {}x{}", rows, columns), rows, columns, bytes);
      into.push_back(step_of(true, own));
      at_end.push_back(step_of(false, own));
    } else {
      const auto [at, is_new] = placeholders_.try_emplace({rows, columns}, 0U);
      if (is_new) {
        at->second = own_tensor(fmt::format("placeholder {}x{}", rows, columns), rows, columns, bytes);
      }
      into.push_back(step_of(true, at->second));
      into.back().stays = true;
    }
  }
  end_piece();
  into.insert(into.end(), at_end.begin(), at_end.end());
}

}  // namespace orrery
