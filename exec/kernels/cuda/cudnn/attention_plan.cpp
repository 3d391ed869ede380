#include "exec/kernels/cuda/cudnn/attention_plan.hpp"

#include <dlfcn.h>

#include <cstring>

// The frontend would load whichever release of the CUDA runtime it finds first, and warn of a second one. This program
// is built for one.
namespace {
void* open_library(const char* name, int flags) {
  constexpr const char* runtime = "libcudart.so.";
  const std::size_t length = std::strlen(runtime);
  if (std::strncmp(name, runtime, length) == 0 && std::to_string(ORRERY_CUDA_MAJOR) != name + length) return nullptr;
  return dlopen(name, flags);
}
}  // namespace
#define dlopen(name, flags) open_library(name, flags)
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <unordered_map>

namespace orrery::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : std::int64_t { queries = 1, keys, values, context, row_sums, dcontext, dqueries, dkeys, dvalues };

void require(fe::error_t e, const char* what) {
  if (e.is_good()) return;
  // A plan may be refused for the reason of its last kernel; cuDNN's own words say more than the frontend's.
  std::string words = e.get_message();
  char last[1024] = {};
  fe::detail::get_last_error_string(last, sizeof last);
  if (last[0] != '\0') words += std::string("; ") + last;
  throw Error(std::string("cuDNN: cannot ") + what + ": " + words);
}

fe::DataType_t type_of(DType t) { return t == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

std::vector<std::int64_t> list(const std::array<std::int64_t, 4>& x) { return {x.begin(), x.end()}; }

Tensor input(fe::graph::Graph& graph, Uid uid, const char* name, const Strided& t, fe::DataType_t type) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim(list(t.size))
                          .set_stride(list(t.stride))
                          .set_data_type(type));
}

void output(const Tensor& x, Uid uid, const Strided& t, fe::DataType_t type) {
  x->set_output(true).set_uid(uid).set_dim(list(t.size)).set_stride(list(t.stride)).set_data_type(type);
}

template <class Attributes>
void mask(Attributes& a, const AttentionShape& s) {
  const bool square = s.length == s.keys_length;
  a.set_attn_scale(static_cast<float>(s.scale))
      .set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  if (s.causal) a.set_diagonal_band_right_bound(0);
  // cuDNN's left bound counts the query's own position, as our window does: a key is seen where key + bound > query.
  if (s.window > 0) a.set_diagonal_band_left_bound(static_cast<int>(s.window));
}

void forward(fe::graph::Graph& graph, const AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
  mask(attributes, s);
  const auto [out, sums] = graph.sdpa(q, k, v, attributes);
  output(out, context, s.context(), type_of(s.type));
  output(sums, row_sums, s.row_sums(), fe::DataType_t::FLOAT);
}

void backward(fe::graph::Graph& graph, const AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v) {
  const fe::DataType_t type = type_of(s.type);
  const Tensor o = input(graph, context, "context", s.context(), type);
  const Tensor d = input(graph, dcontext, "dcontext", s.context(), type);
  const Tensor sums = input(graph, row_sums, "row_sums", s.row_sums(), fe::DataType_t::FLOAT);
  auto attributes =
      fe::graph::SDPA_backward_attributes().set_name("attention_backward").set_deterministic_algorithm(true);
  mask(attributes, s);
  const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, o, d, sums, attributes);
  output(dq, dqueries, s.query_gradients(), type);
  output(dk, dkeys, s.keys(), type);
  output(dv, dvalues, s.values(), type);
}

}  // namespace

struct AttentionPlan::State {
  AttentionShape shape;
  std::shared_ptr<fe::DeviceProperties> device;  // the graph refers to it
  fe::graph::Graph graph;
  std::int64_t workspace = 0;
};

AttentionPlan::AttentionPlan(const AttentionShape& s, const PlanTarget& target) : state_(new State) {
  state_->shape = s;
  fe::graph::Graph& graph = state_->graph;
  const fe::DataType_t type = type_of(s.type);
  graph.set_io_data_type(type)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(target.capability);
  if (!target.described.empty()) {
    state_->device = std::make_shared<fe::DeviceProperties>();
    require(state_->device->deserialize({target.described.begin(), target.described.end()}), "describe a device");
    graph.set_device_properties(state_->device);
  }
  const Tensor q = input(graph, queries, "queries", s.queries(), type);
  const Tensor k = input(graph, keys, "keys", s.keys(), type);
  const Tensor v = input(graph, values, "values", s.values(), type);
  s.backward ? backward(graph, s, q, k, v) : forward(graph, s, q, k, v);

  const auto handle = static_cast<cudnnHandle_t>(target.handle);
  require(graph.validate(), "take the graph");
  require(handle != nullptr ? graph.build_operation_graph(handle) : graph.build_operation_graph(), "build the graph");
  require(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "plan attention");
  require(graph.check_support(), "find a plan of attention that it supports");
  require(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), "build a plan of attention");
  require(graph.get_workspace_size(state_->workspace), "say how much memory attention takes");
}

AttentionPlan::~AttentionPlan() = default;

std::uint64_t AttentionPlan::workspace_bytes() const { return static_cast<std::uint64_t>(state_->workspace); }

std::string AttentionPlan::name() const {
  std::string name;
  require(state_->graph.get_plan_name(name), "name a plan");
  return name;
}

std::vector<std::uint8_t> AttentionPlan::serialized() const {
  std::vector<std::uint8_t> data;
  require(state_->graph.serialize(data), "serialise a plan");
  return data;
}

std::string AttentionPlan::graph_text() const { return state_->graph.print(); }

void AttentionPlan::run(Handle handle, const AttentionOperands& o, void* workspace) const {
  const AttentionShape& s = state_->shape;
  for (std::int64_t call = 0; call < s.calls(); ++call) {
    // The place of the call's first pair.
    const auto at = [&](const std::byte* x, const Strided& t, std::int64_t size) {
      // cuDNN does not write what goes in.
      return static_cast<void*>(const_cast<std::byte*>(x) + size * (call * s.pairs * t.stride[0] + t.first));
    };
    constexpr std::int64_t narrow = 2, wide = 4;  // bytes of bf16 and f16, and of f32
    std::unordered_map<std::int64_t, void*> given{{queries, at(o.queries, s.queries(), narrow)},
                                                  {keys, at(o.keys, s.keys(), narrow)},
                                                  {values, at(o.keys, s.values(), narrow)},
                                                  {context, at(o.context, s.context(), narrow)},
                                                  {row_sums, at(o.row_sums, s.row_sums(), wide)}};
    if (s.backward) {
      given.emplace(dcontext, at(o.dcontext, s.context(), narrow));
      given.emplace(dqueries, at(o.dqueries, s.query_gradients(), narrow));
      given.emplace(dkeys, at(o.dkeys, s.keys(), narrow));
      given.emplace(dvalues, at(o.dkeys, s.values(), narrow));
    }
    require(state_->graph.execute(static_cast<cudnnHandle_t>(handle), given, workspace), "run attention");
  }
}

}  // namespace orrery::cudnn
