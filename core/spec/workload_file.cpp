#include "core/spec/adapter_names.hpp"
#include "core/spec/data_file.hpp"
#include "core/spec/mixture_file.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view>& float_names() {
  static const std::vector<std::string_view> names{"f64", "f32", "bf16", "f16"};  // first enumerators of DType
  return names;
}

void read_moment_dtype(TomlTable& t, Workload& w) {
  static constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::f8, DType::u8};
  static const std::vector<std::string_view> names{"f64", "f32", "bf16", "f16", "f8", "u8"};
  std::size_t at = 0;
  if (t.read_enum("moment_dtype", names, at, Need::optional)) w.moment_dtype = types[at];
}

void read_optimizer(TomlTable t, Optimizer& o) {
  t.read_enum("kind", optimizer_names(), o.kind, Need::optional);
  t.read("learning_rate", o.learning_rate, {0.0, 1e3}, Need::optional);
  t.read("weight_decay", o.weight_decay, {0.0, 1e3}, Need::optional);
  // A key of another optimizer's kind would have no effect, so it is an error like any unknown key.
  switch (o.kind) {
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      t.read("beta1", o.beta1, {0.0, 1.0, false, true}, Need::optional);
      t.read("beta2", o.beta2, {0.0, 1.0, false, true}, Need::optional);
      t.read("epsilon", o.epsilon, {0.0, 1.0}, Need::optional);
      if (double clip = 0.0;
          o.kind == OptimizerKind::lamb && t.read("trust_clip", clip, {0.0, max_trust, true}, Need::optional)) {
        o.trust_clip = clip;
      }
      break;
    case OptimizerKind::sgd: t.read("momentum", o.momentum, {0.0, 1.0}, Need::optional); break;
    case OptimizerKind::lars:
      t.read("momentum", o.momentum, {0.0, 1.0}, Need::optional);
      t.read("trust_coefficient", o.trust_coefficient, {0.0, max_trust, true}, Need::optional);
      break;
    case OptimizerKind::adafactor: break;
  }
  t.finish();
}

void read_schedule(TomlTable t, LearningRateSchedule& s) {
  t.read_enum("kind", schedule_names(), s.kind, Need::optional);
  t.read("warmup_steps", s.warmup_steps, {0, max_steps}, Need::optional);
  t.read("total_steps", s.total_steps, {0, max_steps}, Need::optional);
  t.read("minimum_ratio", s.minimum_ratio, {0.0, 1.0}, Need::optional);
  t.finish();
}

void read_adapters(TomlTable t, Workload& w) {
  Adapters a;
  const double usual_scale = a.scale();
  t.read("rank", a.rank, {1, max_adapter_rank});
  a.alpha = usual_scale * a.rank;
  t.read("rank_stabilized", a.rank_stabilized, Need::optional);
  t.read("alpha", a.alpha, {0.0, 1e6, true}, Need::optional);
  std::vector<std::string> names;
  if (t.read("matrices", names, adapted_matrix_count, Need::optional)) {
    std::string unknown;
    const std::optional<std::uint8_t> matrices = matrices_named(names, unknown);
    if (!matrices) {
      const std::string what =
          names.empty() ? "adapters need a matrix" : "\"" + unknown + "\" is no matrix that takes an adapter";
      t.error("matrices", "workload.adapters", what, {matrices_help()});
    }
    a.matrices = matrices.value_or(a.matrices);
  }
  t.read_enum("base", base_weights_names(), a.base, Need::optional);
  t.read("double_quantization", a.double_quantization, Need::optional);
  if (a.double_quantization && a.base != BaseWeights::nf4) {
    t.error("double_quantization", "workload.adapters", "only the scales of nf4 are quantized a second time",
            {"base is \"" + std::string(name_of(a.base)) + "\".",
             "Write base = \"nf4\", or leave double_quantization out."});
  }
  t.finish();
  w.adapters = a;
}

void write_adapters(TomlWriter& out, const Adapters& a, const std::string& path) {
  out.table(path).whole("rank", a.rank).number("alpha", a.alpha);
  std::vector<std::string> names;
  for (const AdaptedMatrix m : adapted_matrices) {
    if (a.matrices != Adapters::all_matrices && a.has(m)) names.emplace_back(name_of(m));
  }
  if (names.empty()) names.emplace_back("all");
  out.texts("matrices", names);
  if (a.rank_stabilized) out.flag("rank_stabilized", true);
  if (a.base != BaseWeights::unquantized) out.text("base", name_of(a.base));
  if (a.double_quantization) out.flag("double_quantization", true);
}

}  // namespace

std::optional<Workload> read_workload(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  Workload w;
  w.origin = t.origin();
  t.also("batch", "gbs");
  t.also("sequence", "seq");
  t.read("batch", w.global_batch, {1, max_batch});
  t.read("sequence", w.sequence_length, {1, max_sequence});
  t.read_enum("precision", precision_names(), w.precision, Need::optional);
  t.read("master_weights", w.master_weights, Need::optional);
  DType gradient{};
  if (t.read_enum("gradient_dtype", float_names(), gradient, Need::optional)) w.gradient_dtype = gradient;
  read_moment_dtype(t, w);
  if (std::optional<TomlTable> o = t.table("optimizer", Need::optional)) read_optimizer(*o, w.optimizer);
  if (std::optional<TomlTable> s = t.table("schedule", Need::optional)) read_schedule(*s, w.schedule);
  if (std::optional<TomlTable> a = t.table("adapters", Need::optional)) read_adapters(*a, w);
  double clip = 0.0;
  if (t.read("clip_norm", clip, {0.0, 1e9, true}, Need::optional)) w.clip_norm = clip;
  constexpr Limits<double> rate{0.0, 1.0, false, true};
  double both = 0.0;
  if (t.read("dropout", both, rate, Need::optional)) {
    w.hidden_dropout = both;
    w.attention_dropout = both;
    for (const char* one : {"hidden_dropout", "attention_dropout"}) {
      if (t.has(one))
        t.error(one, "workload.dropout", "dropout already sets this rate", {"Give dropout, or the two rates."});
    }
  }
  t.read("hidden_dropout", w.hidden_dropout, rate, Need::optional);
  t.read("attention_dropout", w.attention_dropout, rate, Need::optional);
  t.read("loss_scale", w.loss_scale, {1.0, 0x1p40}, Need::optional);
  t.read("loss_scale_window", w.loss_scale_window, {1, max_steps}, Need::optional);
  if (std::optional<TomlTable> r = t.table("routing", Need::optional)) read_routing(*r, w.routing);
  double weight = 0.0;
  if (t.read("prediction_loss_weight", weight, {0.0, 1e3, true}, Need::optional)) w.prediction_loss_weight = weight;
  t.read("seed", w.seed, {0, std::uint64_t{1} << 62}, Need::optional);
  if (t.read("data", w.data, Need::optional) && !w.data.empty() && !w.origin.file.empty()) {
    // The path is relative to the file that names it, wherever the program was started.
    w.data = (std::filesystem::path(w.origin.file).parent_path() / w.data).lexically_normal().string();
  }
  t.finish();
  if (t.diagnostics().size() != before || !check_workload(w, t.diagnostics())) return std::nullopt;
  if (!check_data(w, t.diagnostics())) return std::nullopt;
  return w;
}

void write_workload(TomlWriter& out, const Workload& w, std::string_view path) {
  const Workload usual;
  const std::string prefix(path);
  out.table(path).whole("batch", w.global_batch).whole("sequence", w.sequence_length);
  out.text("precision", name_of(w.precision));
  if (!w.master_weights) out.flag("master_weights", false);
  if (w.gradient_dtype) out.text("gradient_dtype", name_of(*w.gradient_dtype));
  if (w.moment_dtype) out.text("moment_dtype", name_of(*w.moment_dtype));
  if (w.clip_norm) out.number("clip_norm", *w.clip_norm);
  if (w.hidden_dropout == w.attention_dropout) {
    if (w.hidden_dropout != 0.0) out.number("dropout", w.hidden_dropout);
  } else {
    out.number("hidden_dropout", w.hidden_dropout).number("attention_dropout", w.attention_dropout);
  }
  if (w.loss_scale != usual.loss_scale) out.number("loss_scale", w.loss_scale);
  if (w.loss_scale_window != usual.loss_scale_window) out.whole("loss_scale_window", w.loss_scale_window);
  if (w.prediction_loss_weight) out.number("prediction_loss_weight", *w.prediction_loss_weight);
  if (w.seed != usual.seed) out.whole("seed", w.seed);
  if (!w.data.empty()) out.text("data", w.data);
  const Optimizer& o = w.optimizer;
  out.table(prefix + ".optimizer").text("kind", name_of(o.kind)).number("learning_rate", o.learning_rate);
  switch (o.kind) {
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      out.number("beta1", o.beta1).number("beta2", o.beta2).number("epsilon", o.epsilon);
      if (o.trust_clip) out.number("trust_clip", *o.trust_clip);
      break;
    case OptimizerKind::sgd: out.number("momentum", o.momentum); break;
    case OptimizerKind::lars:
      out.number("momentum", o.momentum).number("trust_coefficient", o.trust_coefficient);
      break;
    case OptimizerKind::adafactor: break;
  }
  out.number("weight_decay", o.weight_decay);
  if (w.adapters) write_adapters(out, *w.adapters, prefix + ".adapters");
  if (w.routing != usual.routing) write_routing(out, w.routing, prefix + ".routing");
  const LearningRateSchedule& s = w.schedule;
  if (s != usual.schedule) {
    out.table(prefix + ".schedule").text("kind", name_of(s.kind)).whole("warmup_steps", s.warmup_steps);
    out.whole("total_steps", s.total_steps).number("minimum_ratio", s.minimum_ratio);
  }
}

std::string write_workload(const Workload& w) {
  TomlWriter out;
  out.whole("schema", spec_schema);
  write_workload(out, w);
  return out.str();
}

}  // namespace orrery
