#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/program/flat_parts.hpp"
#include "core/program/kernel_table.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// Ops that come in pairs are counted over a step. What is differentiated forward is differentiated backward, a gradient
// that something adds to is used by an update (and by the norm, where there is one), and parts that are updated are
// gathered. A list that has lost one of a pair is sound in every other respect.

using Kind = KernelKind;

struct Pair {
  Kind forward;
  Kind backward;
};

// Each forward run of a layer and microbatch needs its backward run.
constexpr Pair pairs[] = {{Kind::layer_norm_forward, Kind::layer_norm_backward_input},
                          {Kind::layer_norm_forward, Kind::layer_norm_backward_weight},
                          {Kind::rms_norm_forward, Kind::rms_norm_backward_input},
                          {Kind::rms_norm_forward, Kind::rms_norm_backward_weight},
                          {Kind::query_key_norm_forward, Kind::query_key_norm_backward_input},
                          {Kind::query_key_norm_forward, Kind::query_key_norm_backward_weight},
                          {Kind::adapter_forward, Kind::adapter_backward_input},
                          {Kind::adapter_forward, Kind::adapter_backward_weight},
                          {Kind::rope_forward, Kind::rope_backward},
                          {Kind::latent_heads_forward, Kind::latent_heads_backward},
                          {Kind::attention_unfused_forward, Kind::attention_unfused_backward},
                          {Kind::attention_flash_forward, Kind::attention_flash_backward},
                          {Kind::attention_part_forward, Kind::attention_part_backward},
                          {Kind::attention_scores_forward, Kind::attention_scores_backward},
                          {Kind::attention_softmax_forward, Kind::attention_softmax_backward},
                          {Kind::attention_softmax_forward, Kind::attention_pairs_backward},
                          {Kind::attention_values_forward, Kind::attention_values_backward},
                          {Kind::gates_forward, Kind::gates_backward},
                          {Kind::dispatch_forward, Kind::dispatch_backward},
                          {Kind::combine_forward, Kind::combine_backward},
                          {Kind::gate_forward, Kind::gate_backward},
                          {Kind::gelu_forward, Kind::gelu_backward},
                          {Kind::swiglu_forward, Kind::swiglu_backward},
                          {Kind::geglu_forward, Kind::geglu_backward},
                          {Kind::relu_forward, Kind::relu_backward},
                          {Kind::squared_relu_forward, Kind::squared_relu_backward},
                          {Kind::quick_gelu_forward, Kind::quick_gelu_backward},
                          {Kind::scale_features_forward, Kind::scale_features_backward_input},
                          {Kind::scale_features_forward, Kind::scale_features_backward_weight},
                          {Kind::mean_rows_forward, Kind::mean_rows_backward},
                          {Kind::clip_forward, Kind::clip_backward},
                          {Kind::position_forward, Kind::position_backward},
                          {Kind::segment_forward, Kind::segment_backward},
                          {Kind::class_token_forward, Kind::class_token_backward},
                          {Kind::cross_entropy_max, Kind::cross_entropy_sum},
                          {Kind::cross_entropy_sum, Kind::cross_entropy_loss},
                          {Kind::cross_entropy_sum, Kind::cross_entropy_backward}};

/// Elements of an instance, as intervals that need not be sorted.
using Cover = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

bool covers(Cover cover, std::uint64_t low, std::uint64_t high) {
  std::sort(cover.begin(), cover.end());
  for (const auto& [from, to] : cover) {
    if (from <= low) low = std::max(low, to);
  }
  return low >= high;
}

class Pairs {
 public:
  Pairs(Findings& f, std::uint32_t rank_class) : f_(f), p_(f.program()), class_(rank_class) {
    // Gradient buffers that do not outlive the step: their sums must be passed on.
    std::set<std::uint32_t> kept;
    for_each_op(p_, p_.classes[class_].setup, [&](const OpRun& run) {
      const auto* alloc = std::get_if<Alloc>(&run.op->action);
      if (alloc == nullptr) return;
      kept.insert(index(alloc->what));
      const Buffer& b = p_[alloc->what];
      if (b.role != Role::weight || !b.parameters || b.tier != Tier::device) return;
      resident_.emplace(*b.parameters,
                        instance_of(p_, alloc->what, alloc->layer_shift, run.layer, run.microbatch).layer);
    });
    for (const Buffer& b : p_.buffers) {
      if (b.role == Role::gradient && b.parameters) trained_.insert(*b.parameters);
    }
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].role == Role::gradient && !kept.contains(b)) passed_on_.insert(b);
    }
  }

  void check() {
    for_each_op(p_, p_.classes[class_].step, [&](const OpRun& run) { see(run); });
    if (trains_) counts();
    updates();
    if (!lost_means_.empty()) wrong("program.pairing", "the loss is summed, but its mean is never taken");
    for (const auto& [instance, cover] : below_) {
      // Where the device keeps no copy, the next step brings one.
      if (!cover.empty() && resident_.contains({*p_[instance.buffer].parameters, instance.layer})) {
        wrong("program.update", fmt::format("{} of layer {} is updated and never copied to the device",
                                            p_[instance.buffer].name, instance.layer));
      }
    }
    for (const auto& [instance, cover] : scattered_) {
      if (!cover.empty()) {
        wrong("program.update", fmt::format("{} of layer {} is updated in parts that are never gathered",
                                            p_[instance.buffer].name, instance.layer));
      }
    }
  }

 private:
  struct Runs {
    std::array<int, kernel_kind_count> all{};  ///< without recomputation
    int recomputed_products = 0, recomputed_ropes = 0, recomputed_biases = 0, recomputed_adapters = 0;
    int residuals = 0, recomputed_residuals = 0;  ///< sums with the stream, in forward passes
    /// Whether layers were made again whole, and not only some modules, which leave the sums with the stream alone.
    [[nodiscard]] bool recomputes_layers() const {
      return recomputed_products > 0 && recomputed_residuals == residuals;
    }
    int biased = 0;        ///< forward ops that add a bias
    int layer_biases = 0;  ///< bias_forward of layers alone, which the embedding of images may have too
    int products = 0, weight_products = 0;
    int differentiated = 0, input_products = 0;  ///< forward products of computed inputs, and gradients of those inputs
    int dropped = 0;
    int positions = 0, positions_due = 0;      ///< added to words of a table that stays as it is, and to be added
    int frozen_tables = 0, dropped_words = 0;  ///< words of a table that stays as it is, where the backward pass ends
    int added_inputs = 0;  ///< products that add to an input gradient, as a router's product does to its experts'
                           ///< gradient
  };

  void wrong(const char* code, const std::string& what) { f_.add(code, fmt::format("{} (class {})", what, class_)); }

  /// A norm without weights needs no gradient of them.
  static void count_weightless(Runs& r, Kind norm) {
    if (norm == Kind::layer_norm_forward) ++r.all[index(Kind::layer_norm_backward_weight)];
    if (norm == Kind::rms_norm_forward) ++r.all[index(Kind::rms_norm_backward_weight)];
    if (norm == Kind::query_key_norm_forward) ++r.all[index(Kind::query_key_norm_backward_weight)];
  }

  [[nodiscard]] const View& view(const OpRun& run, std::uint32_t i) const {
    return run.block->views[run.op->views.first + i];
  }
  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }
  /// The elements that all ranks together cover with their parts.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> reach(const View& v) const {
    return {v.offset, v.offset + v.count * size(p_.mesh, v.member_of)};
  }

  /// Every sum that is added to a gradient ends in an update: directly, or through a reduce-scatter that takes it
  /// before the buffer ends or is cleared.
  void pending(const OpRun& run) {
    const auto drop = [&](const Instance& i) {
      if (!pending_[i].empty()) {
        wrong("program.update", fmt::format("{} of layer {} is dropped before anything has taken what was added to it",
                                            p_[i.buffer].name, i.layer));
      }
      pending_[i].clear();
      added_.erase(i);
    };
    const auto clear = [&](const Instance& i, const View& v) {
      const bool added = std::any_of(pending_[i].begin(), pending_[i].end(), [&](const auto& part) {
        return part.first < v.offset + v.count && v.offset < part.second;
      });
      if (added || v.count == p_[v.buffer].count) drop(i);
    };
    if (const auto* free = std::get_if<Free>(&run.op->action)) {
      const Instance gone = instance_of(p_, free->what, free->layer_shift, run.layer, run.microbatch);
      if (!unsaved_[gone].empty()) {
        wrong("program.update", fmt::format("{} of layer {} is updated and never copied to where it lives",
                                            p_[free->what].name, gone.layer));
      }
      unsaved_.erase(gone);
      if (p_[free->what].role == Role::gradient) {
        drop(instance_of(p_, free->what, free->layer_shift, run.layer, run.microbatch));
      }
      return;
    }
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      if (p_[v.buffer].role != Role::gradient) continue;
      const auto at = instance(run, v);
      if (const auto* c = std::get_if<Collective>(&run.op->action)) {
        if (c->kind != Collective::Kind::reduce_scatter) continue;
        if (i % 2 == 1) {
          added_[at] = true;
        } else if (view(run, i + 1).buffer != v.buffer) {
          std::erase_if(pending_[at],
                        [&](const auto& part) { return v.offset <= part.first && part.second <= v.offset + v.count; });
        }
      } else if (const auto* compute = std::get_if<Compute>(&run.op->action)) {
        if (run.block->kernels[compute->kernel].kind == Kind::fill) {
          if (p_[v.buffer].flat_split.empty() && passed_on_.contains(index(v.buffer))) clear(at, v);
        } else if (v.use != View::Use::read && passed_on_.contains(index(v.buffer))) {
          pending_[at].emplace_back(v.offset, v.offset + v.count);
        }
      }
    }
  }

  void see(const OpRun& run) {
    pending(run);
    if (const auto* c = std::get_if<Collective>(&run.op->action);
        c != nullptr && c->kind == Collective::Kind::all_gather) {
      for (std::uint32_t i = 1; i < run.op->views.count; i += 2) {
        const auto at = scattered_.find(instance(run, view(run, i)));
        if (at == scattered_.end()) continue;
        const auto [low, high] = reach(view(run, i));
        std::erase_if(at->second,
                      [low = low, high = high](const auto& part) { return low <= part.first && part.second <= high; });
      }
    }
    if (std::holds_alternative<Copy>(run.op->action)) copied(run);
    const auto* compute = std::get_if<Compute>(&run.op->action);
    if (compute == nullptr) return;
    const Kernel& k = run.block->kernels[compute->kernel];
    Runs& r = runs_[{run.layer, run.microbatch}];
    if (k.pass == Pass::recompute) {
      r.recomputed_products += k.kind == Kind::gemm ? 1 : 0;
      r.recomputed_ropes += k.kind == Kind::rope_forward ? 1 : 0;
      r.recomputed_biases += k.kind == Kind::bias_forward ? 1 : 0;
      r.recomputed_adapters += k.kind == Kind::adapter_forward ? 1 : 0;
      r.recomputed_residuals += k.kind == Kind::residual_forward ? 1 : 0;
      return;
    }
    ++r.all[index(k.kind)];
    r.residuals += k.kind == Kind::residual_forward && k.pass == Pass::forward ? 1 : 0;
    const bool norm = k.kind == Kind::layer_norm_forward || k.kind == Kind::rms_norm_forward ||
                      k.kind == Kind::query_key_norm_forward;
    if (k.options.unweighted || (norm && !is_trained(view(run, 1)))) count_weightless(r, k.kind);
    if (k.kind == Kind::position_forward && !is_trained(view(run, 1))) {
      --r.all[index(k.kind)];
      ++r.positions;
    }
    const bool takes_bias = k.kind == Kind::gemm || k.kind == Kind::expert_gemm || k.kind == Kind::residual_forward;
    if (k.kind == Kind::bias_forward || (takes_bias && k.options.bias)) {
      const View& bias = view(run, OperandPlaces(k, run.op->views.count)[OperandName::bias]);
      r.biased += is_trained(bias) ? 1 : 0;
      if (k.kind == Kind::bias_forward) r.layer_biases += is_of_layer(bias) ? 1 : 0;
    }
    if (k.kind == Kind::gemm || k.kind == Kind::expert_gemm) {
      r.products += k.pass == Pass::forward && is_trained(view(run, 1)) ? 1 : 0;
      r.weight_products += k.pass == Pass::weight_gradient ? 1 : 0;
      const bool adds = k.kind == Kind::gemm && view(run, 2).use == View::Use::accumulate;
      r.added_inputs +=
          k.pass == Pass::input_gradient && adds && router_gradients_.contains(index(view(run, 0).buffer)) ? 1 : 0;
    }
    if (k.kind == Kind::gates_backward) router_gradients_.insert(index(view(run, run.op->views.count - 1).buffer));
    if (k.kind == Kind::gemm) {
      const bool of_data = p_[view(run, 0).buffer].role == Role::data;
      r.differentiated += k.pass == Pass::forward && !of_data ? 1 : 0;
      r.input_products += k.pass == Pass::input_gradient ? 1 : 0;
    }
    // Nobody needs the gradient in front of a word table that stays as it is.
    if (k.kind == Kind::embed_forward && !is_trained(view(run, 1))) {
      ++r.frozen_tables;
      const auto& slices = p_.parameter_tables[*p_[view(run, 1).buffer].parameters].slices;
      r.positions_due +=
          std::any_of(slices.begin(), slices.end(), [](const auto& s) { return s.name == "position.weight"; }) ? 1 : 0;
    }
    const bool drops = (k.kind == Kind::residual_forward && k.options.dropout) || k.kind == Kind::dropout_forward;
    const bool of_table = k.kind == Kind::dropout_forward && r.frozen_tables > 0;
    if (drops) ++(of_table ? r.dropped_words : r.dropped);
    trains_ = trains_ || k.pass == Pass::weight_gradient;
    if (k.kind == Kind::cross_entropy_loss) lost_means_.emplace(index(view(run, 4).buffer), view(run, 4).offset);
    if (k.kind == Kind::mean_loss) lost_means_.erase({index(view(run, 0).buffer), view(run, 0).offset});
    if (k.kind == Kind::embed_forward) embedded_[{run.layer, run.microbatch}] += is_trained(view(run, 1)) ? 1 : 0;
    gradients(run, k);
  }

  /// Whether some buffer holds the gradient of the view's table.
  [[nodiscard]] bool is_trained(const View& v) const {
    const auto& table = p_[v.buffer].parameters;
    return !table || trained_.contains(*table);  // without a table it is gathered from the table's parts
  }

  /// Whether the parameters are a layer's, and not the embedding's or the head's.
  [[nodiscard]] bool is_of_layer(const View& v) const {
    const auto& table = p_[v.buffer].parameters;
    return !table || of_layers(p_.parameter_tables[*table]);
  }

  /// Gradients go to the host for its update, and the updated weights come back.
  void copied(const OpRun& run) {
    for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
      const View &from = view(run, i), &to = view(run, i + 1);
      if (p_[from.buffer].role == Role::gradient) {
        copies_of_[instance(run, to)].push_back({reach(to), instance(run, from), reach(from)});
      }
      const auto [first, last] = reach(from);
      std::erase_if(unsaved_[instance(run, from)], [first = first, last = last](const auto& part) {
        return first <= part.first && part.second <= last;
      });
      if (p_[from.buffer].tier == Tier::device || p_[to.buffer].tier != Tier::device) continue;
      if (p_[to.buffer].role != Role::weight) continue;
      if (p_[from.buffer].role == Role::weight) {
        std::erase_if(below_[instance(run, from)], [first = first, last = last](const auto& part) {
          return first <= part.first && part.second <= last;
        });
      }
      if (!to.member_of.empty() && size(p_.mesh, to.member_of) > 1) scattered_[instance(run, to)].push_back(reach(to));
    }
  }

  void gradients(const OpRun& run, const Kernel& k) {
    trust(run, k);
    factored(run, k);
    if (k.kind == Kind::adafactor_moments) {
      const View& moments = view(run, OperandPlaces(k, run.op->views.count)[OperandName::moments]);
      if (p_[moments.buffer].role == Role::workspace) unsaved_[instance(run, moments)].push_back(reach(moments));
    }
    if (k.kind == Kind::lars_norms || k.kind == Kind::adafactor_squares || k.kind == Kind::adafactor_moments) return;
    // LAMB takes the gradient into its moments; trust() checks the update from those.
    const bool update = k.kind == Kind::sgd_update || k.kind == Kind::adam_update || k.kind == Kind::lars_update ||
                        k.kind == Kind::lamb_moments || k.kind == Kind::lamb_update || k.kind == Kind::adafactor_update;
    if (k.kind == Kind::clip_factor) clips_ = true;
    if (k.kind == Kind::advance_step) advanced_ = true;
    if (k.kind == Kind::sum_squares || (update && k.kind != Kind::lamb_update)) {
      const View& g = view(run, 0);
      auto& cover = (update ? updated_ : squared_)[instance(run, g)];
      cover.push_back(reach(g));
      if (const auto copies = copies_of_.find(instance(run, g)); copies != copies_of_.end()) {
        const auto [low, high] = reach(g);
        for (const CopyOf& c : copies->second) {
          const bool inside = low <= c.to.first && c.to.second <= high;
          if (inside) (update ? updated_ : squared_)[c.source].push_back(c.from);
        }
      }
    }
    if (update) {
      if (!advanced_ && !early_) {
        early_ = true;
        wrong("program.update", "parameters are updated before the step is counted");
      }
      for (std::uint32_t i = 1; i < run.op->views.count; ++i) {
        const View& v = view(run, i);
        if (p_[v.buffer].role == Role::workspace && v.use == View::Use::accumulate && p_[v.buffer].parameters) {
          unsaved_[instance(run, v)].push_back(reach(v));
        }
        if (p_[v.buffer].role == Role::weight && p_[v.buffer].tier != Tier::device) {
          below_[instance(run, v)].push_back(reach(v));
        }
        if (p_[v.buffer].role == Role::weight && !v.member_of.empty() && size(p_.mesh, v.member_of) > 1) {
          scattered_[instance(run, v)].push_back(reach(v));
        }
      }
    } else if (k.kind != Kind::fill) {
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
        const View& v = view(run, i);
        if (v.use != View::Use::read && p_[v.buffer].role == Role::gradient) added_[instance(run, v)] = true;
      }
    }
  }

  /// A trust ratio needs the norms of everything that the update changes, and LAMB's moments end in an update.
  void trust(const OpRun& run, const Kernel& k) {
    const std::uint32_t last = run.op->views.count - 1;
    if (k.kind == Kind::lamb_moments) {
      measured_[instance(run, view(run, last - 1))].push_back(reach(view(run, last - 1)));
      applied_.try_emplace(instance(run, view(run, last - 1)));
    }
    if (k.kind == Kind::lars_norms) measured_[instance(run, view(run, 0))].push_back(reach(view(run, 0)));
    const bool lamb = k.kind == Kind::lamb_update;
    if (!lamb && (k.kind != Kind::lars_update || k.depth == 0)) return;
    const View& v = view(run, lamb ? last : 0);
    if (lamb) applied_[instance(run, v)].push_back(reach(v));
    const auto [low, high] = reach(v);
    if (covers(measured_[instance(run, v)], low, high)) return;
    wrong("program.update", fmt::format("elements {} to {} of {} of layer {} are left out of their tensors' norms", low,
                                        high, p_[v.buffer].name, run.layer));
  }

  /// Adafactor's means, and the norm of the update, cover all squares that the update needs.
  void factored(const OpRun& run, const Kernel& k) {
    const bool squares = k.kind == Kind::adafactor_squares, moments = k.kind == Kind::adafactor_moments;
    if (!squares && !moments && k.kind != Kind::adafactor_update) return;
    const View& g = view(run, 0);
    const auto [low, high] = reach(g);
    if (squares) return summed_[instance(run, g)].push_back(reach(g));
    if (!covers((moments ? summed_ : measured_)[instance(run, g)], low, high)) {
      wrong("program.update", fmt::format("elements {} to {} of {} of layer {} are left out of their tensors' {}", low,
                                          high, p_[g.buffer].name, run.layer, moments ? "statistics" : "norms"));
    }
    if (moments) measured_[instance(run, g)].push_back(reach(g));
  }

  void counts() {
    for (const auto& [key, r] : runs_) {
      const auto mismatch = [&, &key = key](std::string_view a, int n, std::string_view b, int m) {
        wrong("program.pairing",
              fmt::format("layer {}, microbatch {}: {} runs of {}, but {} of {}", key.first, key.second, n, a, m, b));
      };
      for (const Pair& pair : pairs) {
        const int n = r.all[index(pair.forward)], m = r.all[index(pair.backward)];
        if (n != m) mismatch(name_of(pair.forward), n, name_of(pair.backward), m);
      }
      if (r.products != r.weight_products)
        mismatch("gemm forward", r.products, "gemm weight_gradient", r.weight_products);
      const int gates = r.all[index(Kind::gates_backward)];
      if (gates > 0 && gates != r.added_inputs) {
        mismatch("gates_backward", gates, "gemm that adds a router's to the gradient of its input", r.added_inputs);
      }
      if (r.differentiated != r.input_products && r.input_products > 0)
        mismatch("gemm forward", r.differentiated, "gemm input_gradient", r.input_products);
      if (r.positions != r.positions_due) mismatch("embed_forward", r.positions_due, "position_forward", r.positions);
      if (r.frozen_tables > 0 && r.dropped > 0 && r.dropped_words != r.frozen_tables) {
        mismatch("embed_forward", r.frozen_tables, "dropout_forward", r.dropped_words);
      }
      const int undropped = r.all[index(Kind::dropout_backward)];
      if (r.dropped != undropped && r.dropped > 0)
        mismatch("forward dropout", r.dropped, "dropout_backward", undropped);
      if (const auto e = embedded_.find(key); e != embedded_.end()) {
        const int back = r.all[index(Kind::embed_backward)];
        if (e->second != back) mismatch("embed_forward", e->second, "embed_backward", back);
      }
      const int bias_gradients = r.all[index(Kind::bias_backward)] + r.all[index(Kind::expert_bias_backward)];
      if (r.biased != bias_gradients) {
        mismatch("a forward bias", r.biased, name_of(Kind::bias_backward), bias_gradients);
      }
      if (r.recomputes_layers() && r.recomputed_biases != r.layer_biases) {
        mismatch("bias_forward", r.layer_biases, "bias_forward recomputed", r.recomputed_biases);
      }
      const int adapters = r.all[index(Kind::adapter_forward)];
      if (r.recomputes_layers() && r.recomputed_adapters != adapters) {
        mismatch("adapter_forward", adapters, "adapter_forward recomputed", r.recomputed_adapters);
      }
      const int ropes = r.all[index(Kind::rope_forward)];
      if (r.recomputes_layers() && r.recomputed_ropes != ropes) {
        mismatch("rope_forward", ropes, "rope_forward recomputed", r.recomputed_ropes);
      }
    }
  }

  void updates() {
    for (auto& [moment, applied] : applied_) {
      for (const auto& [low, high] : measured_[moment]) {
        if (covers(applied, low, high)) continue;
        wrong("program.update", fmt::format("elements {} to {} of {} of layer {} are never used by an update", low,
                                            high, p_[moment.buffer].name, moment.layer));
      }
    }
    for (const auto& [instance, any] : added_) {
      const Buffer& b = p_[instance.buffer];
      if (!b.parameters) continue;
      const ParameterTable& table = p_.parameter_tables[*b.parameters];
      for (const FlatPart& part : flat_parts(table, p_.mesh, b.flat_split)) {
        const ParameterSegment& s = *part.segment;
        const std::uint64_t low = part.first, high = part.first + part.count;
        if (!covers(updated_[instance], low, high)) {
          wrong("program.update", fmt::format("elements {} to {} of {} of layer {} are never used by an update", low,
                                              high, b.name, instance.layer));
        }
        if (clips_ && s.counted && !covers(squared_[instance], low, high)) {
          wrong("program.update", fmt::format("elements {} to {} of {} of layer {} are left out of the norm", low, high,
                                              b.name, instance.layer));
        }
      }
    }
  }

  Findings& f_;
  const Program& p_;
  std::uint32_t class_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Runs> runs_;  ///< (layer, microbatch)
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> embedded_;
  std::map<Instance, Cover> updated_, squared_, scattered_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> resident_;  ///< (table, layer) of weights that the device keeps
  std::map<Instance, Cover> unsaved_;                           ///< updated in buffers that pass
  std::map<Instance, Cover> below_;  ///< weights in host memory that no copy has brought to the device since they were
                                     ///< written
  /// Elements of a gradient that are copies of another's.
  struct CopyOf {
    std::pair<std::uint64_t, std::uint64_t> to;
    Instance source;
    std::pair<std::uint64_t, std::uint64_t> from;
  };
  std::map<Instance, std::vector<CopyOf>> copies_of_;
  std::map<Instance, Cover> measured_, applied_;  ///< elements covered by norms of tensors; LAMB's moments that were
                                                  ///< applied
  std::map<Instance, Cover> summed_;              ///< what Adafactor's sums cover
  std::map<Instance, bool> added_;
  std::set<std::uint32_t> passed_on_;
  std::set<std::uint32_t> trained_;  ///< tables whose gradient some buffer holds
  std::map<Instance, Cover> pending_;
  bool trains_ = false, clips_ = false, advanced_ = false, early_ = false;
  std::set<std::uint32_t> router_gradients_;                      ///< buffers that gates_backward writes
  std::set<std::pair<std::uint32_t, std::uint64_t>> lost_means_;  ///< (buffer, element) of losses without their mean
};

}  // namespace

void check_pairs(Findings& f) {
  for (std::uint32_t c = 0; c < f.program().classes.size() && !f.full(); ++c) {
    f.reached(c, f.program().classes.size());
    Pairs(f, c).check();
  }
}

}  // namespace orrery::verifying
