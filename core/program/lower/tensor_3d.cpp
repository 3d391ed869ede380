#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/tensor_grid.hpp"

namespace orrery::lowering {
namespace {

/// 3D tensor parallelism on q x q x q ranks (Bian et al., arXiv 2105.14450).
///
/// The residual stream's sequences are cut along depth, then row, its features along column; between two products row
/// and column change places. A product that widens gathers its input over the rows and its weight over the depth,
/// multiplies once, and reduce-scatters the result over the columns; one that narrows does the same with row and column
/// exchanged, so a pair of them ends where it began. A weight's input dimension is cut along the input's feature axis,
/// then depth; its output dimension along the result's feature axis.
///
/// In the backward pass the gradient of the output is gathered where the result was scattered. There the input and the
/// weight are gathered again, so that what is kept is cut q^3 ways; or they are kept from the forward pass
/// (Plan::save_gathered), which takes q times as much memory and no second gather.
class ThreeD final : public GridSharding {
 public:
  TensorLayout layout() const override {
    TensorLayout l;
    l.stream_sequences = {Axis::depth, Axis::row};
    l.stream_features = {Axis::column};
    l.wide_sequences = {Axis::depth, Axis::column};
    l.wide_features = {Axis::row};
    l.widen_in = {Axis::column, Axis::depth};
    l.widen_out = {Axis::row};
    l.narrow_in = l.vocabulary = {Axis::row, Axis::depth};
    l.narrow_out = {Axis::column};
    return l;
  }

  void forward(State& c, BlockBuilder& b, const Product& p, BufferId x, BufferId y) const override {
    const BufferId whole_x = gather_input(c, b, p, x, false);
    const BufferId whole_w = gather_weight(c, b, p, false);
    const BufferId part = gathered(c, p, ".part", c.program[y].dtype, output_features(c, p), p.out);
    Kernel k = c.kernel(KernelKind::gemm, Pass::forward, rows(c, p), p.out, p.in);
    k.compute = compute_type(c, p);
    k.options.transpose_b = p.transposed;
    b.compute(k, {read(whole_x), read(whole_w), write(part)});
    b.seam(Collective::Kind::reduce_scatter, output_group(c, p), {read(part), taken(c, p, y, View::Use::write, p.out)});
    // Inside the product the bias would be added on every rank of the sum.
    if (p.bias != nullptr) {
      b.compute(c.kernel(KernelKind::bias_forward, Pass::forward, rows_of(c, p), p.out),
                {weight_of(c, *p.module, p.bias), update(y)});
    }
  }

  void input_gradient(State& c, BlockBuilder& b, const Product& p, Operand dy, BufferId dx) const override {
    const BufferId whole_dy = output_gradient(c, p, dy.buffer);
    // A bias' gradient comes before it and waits only on the compute lane for what the next stage sent.
    if (c.pipeline > 1 && dy.buffer == c.hidden_gradient) {
      b.after_tail({LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::backward_receive)});
    }
    b.seam(Collective::Kind::all_gather, output_group(c, p), {dy, write(whole_dy)});
    const BufferId whole_w = gather_weight(c, b, p, true);
    const BufferId part = gathered(c, p, ".input.part", c.program[dx].dtype, input_features(c, p), p.in);
    Kernel k = c.kernel(KernelKind::gemm, Pass::input_gradient, rows(c, p), p.in, p.out);
    k.compute = compute_type(c, p);
    k.options.transpose_b = !p.transposed;
    b.compute(k, {read(whole_dy), read(whole_w), write(part)});
    b.seam(Collective::Kind::reduce_scatter, input_group(c, p), {read(part), taken(c, p, dx, View::Use::write, p.in)});
  }

  /// Runs after input_gradient, which has gathered dy.
  void weight_gradient(State& c, BlockBuilder& b, const Product& p, BufferId x, Operand dy) const override {
    const BufferId whole_dy = output_gradient(c, p, dy.buffer);
    const BufferId whole_x = gather_input(c, b, p, x, true);
    const BufferId part = flat_buffer(c, stem(p) + ".weight.part", Role::workspace, p.scope, c.grad, p.in * p.out);
    Kernel k = c.kernel(KernelKind::gemm, Pass::weight_gradient, p.transposed ? p.out : p.in,
                        p.transposed ? p.in : p.out, rows(c, p));
    k.compute = compute_type(c, p);
    k.options.transpose_a = true;
    b.compute(k, {read(p.transposed ? whole_dy : whole_x), read(p.transposed ? whole_x : whole_dy), write(part)});
    b.seam(Collective::Kind::reduce_scatter, c.depth_group, {read(part), gradient_of(c, *p.module, p.weight)});
  }

 protected:
  Operand word_table(State& c, BlockBuilder& b) const override {
    const BufferId table = words(c, "embedding.table", c.act);
    b.seam(Collective::Kind::all_gather, c.depth_group, {weight_of(c, c.embedding, "word.weight"), write(table)});
    return read(table);
  }

  void add_to_word_gradient(State& c, BlockBuilder& b, const Kernel& kernel, Operand tokens,
                            Operand dx) const override {
    const BufferId part = words(c, "embedding.table.part", c.grad);
    b.compute(c.kernel(KernelKind::fill, Pass::weight_gradient, 1, c.program[part].count), {write(part)});
    b.compute(kernel, {tokens, dx, update(part)});
    b.seam(Collective::Kind::reduce_scatter, c.depth_group, {read(part), gradient_of(c, c.embedding, "word.weight")});
  }

 private:
  static std::uint64_t rows(const State& c, const Product& p) { return c.plan.mesh.size(Axis::row) * rows_of(c, p); }
  /// What a product takes or makes of a buffer.
  static Operand taken(const State& c, const Product& p, BufferId x, View::Use use, std::uint64_t width) {
    return {x, use, 0, 0, rows_of(c, p) * width, {}};
  }
  static GroupId input_group(const State& c, const Product& p) { return p.widens ? c.row_group : c.column_group; }
  static GroupId output_group(const State& c, const Product& p) { return p.widens ? c.column_group : c.row_group; }
  static const AxisList& input_features(const State& c, const Product& p) {
    return p.widens ? c.layout.stream_features : c.layout.wide_features;
  }
  static const AxisList& output_features(const State& c, const Product& p) {
    return p.widens ? c.layout.wide_features : c.layout.stream_features;
  }

  /// A buffer of that name is declared once: forward and backward may mean the same.
  static BufferId named(State& c, const Product& p, const std::string& name, Role role, DType dtype,
                        std::uint64_t count) {
    const std::string full = stem(p) + name;
    const auto known = std::find_if(c.program.buffers.begin(), c.program.buffers.end(),
                                    [&](const Buffer& b) { return b.name == full && b.scope == p.scope; });
    if (known != c.program.buffers.end()) {
      return BufferId{static_cast<std::uint32_t>(known - c.program.buffers.begin())};
    }
    return flat_buffer(c, full, role, p.scope, dtype, count);
  }
  /// Rows of the ranks of a whole group, `width` features of each.
  static BufferId gathered(State& c, const Product& p, const std::string& name, DType dtype, const AxisList& features,
                           std::uint64_t width, Role role = Role::workspace) {
    const BufferId id = named(c, p, name, role, dtype, rows(c, p) * width);
    const std::uint64_t all = width * size(c.plan.mesh, features);
    Shard shard = shard_of_gathered(c, {all, all, features, false});
    if (p.rows > 0) shard.dims[1] = {p.rows / c.sequences, p.rows / c.sequences, {}, false};
    c.program.buffers[index(id)].shard = shard;
    return id;
  }

  static BufferId gather_input(State& c, BlockBuilder& b, const Product& p, BufferId x, bool backward) {
    const bool kept = c.plan.save_gathered;
    const BufferId whole = gathered(c, p, kept || !backward ? ".gathered" : ".gathered.again", c.program[x].dtype,
                                    input_features(c, p), p.in, kept ? Role::activation : Role::workspace);
    if (!(kept && backward))
      b.seam(Collective::Kind::all_gather, input_group(c, p), {taken(c, p, x, View::Use::read, p.in), write(whole)});
    return whole;
  }
  static BufferId gather_weight(State& c, BlockBuilder& b, const Product& p, bool backward) {
    const bool kept = c.plan.save_gathered;
    const BufferId whole = named(c, p, kept || !backward ? ".gathered.weight" : ".gathered.weight.again",
                                 kept ? Role::activation : Role::workspace, c.act, p.in * p.out);
    if (!(kept && backward)) {
      b.seam(Collective::Kind::all_gather, c.depth_group, {weight_of(c, *p.module, p.weight), write(whole)});
    }
    return whole;
  }
  static BufferId output_gradient(State& c, const Product& p, BufferId dy) {
    return gathered(c, p, ".gradient.gathered", c.program[dy].dtype, output_features(c, p), p.out);
  }

  /// The words of this row of ranks, all depths together.
  static BufferId words(State& c, const char* name, DType dtype) {
    const std::uint64_t padded = padded_vocabulary(c.plan, c.model);
    Buffer b;
    b.name = name;
    b.role = Role::workspace;
    b.scope = Scope::microbatch;
    b.dtype = dtype;
    b.shard = Shard{{padded, c.model.vocabulary, {Axis::row}, false},
                    {c.model.hidden, c.model.hidden, c.layout.stream_features, false}};
    b.count = local_count(*b.shard, c.program.mesh);
    return c.declare(std::move(b));
  }
};

}  // namespace

const TensorSharding& tensor_3d() {
  static const ThreeD sharding;
  return sharding;
}

}  // namespace orrery::lowering
