#include "sim/bound/family_step.hpp"

#include <algorithm>
#include <cmath>

#include "core/plan/schedule_rules.hpp"

namespace orrery {
namespace {

/// Layers of a rank whose weights come for each pass.
struct Coming {
  Picoseconds each = 0;  ///< for one layer's weights
  double layers = 0;     ///< at least one of every stage
  double stages = 1;     ///< of the rank
  double opened = 0;     ///< those that a forward pass opens with, as all backward passes do
  Lead lead;
};

/// What a microbatch's passes over the rank's stages take longer by them than its layers, at least.
double waits_for(const Coming& weights, const Lead& longest) {
  // As add_copies says, one layer ahead; not ahead they wait longer.
  const auto way = [&](Picoseconds whole, Picoseconds lead, double opened) {
    if (weights.each <= lead) return 0.0;
    const double openings = std::max(0.0, opened) * static_cast<double>(weights.each - lead);
    const double beside =
        (weights.layers - weights.stages) * static_cast<double>(std::max<Picoseconds>(0, weights.each - whole));
    return openings + std::max(0.0, beside - static_cast<double>(lead));
  };
  // Of every rank's chunks one at most is the first or the last of all, which begin otherwise; the rank's first pass
  // follows no other.
  return way(longest.forward, weights.lead.forward, weights.opened - 1) +
         way(longest.backward, weights.lead.backward, weights.stages - 1);
}

std::uint64_t but(std::uint64_t of, std::uint64_t less) { return of - std::min(of, less); }

}  // namespace

FamilyStep::FamilyStep(const Plan& plan, const FamilyParts& parts, const ModelSpec& model, const Workload& workload,
                       std::uint32_t eighths, std::uint64_t capacity)
    : parts_(parts),
      eighths_(plan.offload_activations ? 0 : eighths),  // beside copies the counts are fixed
      capacity_(static_cast<double>(capacity)),
      copies_(!plan.offload_activations),
      open_(plan.recompute_layers && eighths_ == 0) {
  const std::uint64_t stays = but(parts.kept, parts.copied);
  const std::uint64_t stays_again = std::min(parts.kept, but(parts.kept_recomputed, parts.copied_recomputed));
  const std::uint64_t least_kept = eighths_ > 0 ? std::min(stays, stays_again)
                                   : open_      ? std::min(parts.kept, parts.kept_recomputed)
                                   : copies_    ? stays
                                                : parts.kept;
  stays_again_ = static_cast<double>(stays_again);
  least_kept_ = static_cast<double>(least_kept);
  p_ = static_cast<double>(plan.mesh.size(Axis::pipeline));
  layers_of_model_ = static_cast<double>(model.layers);
  most_ = std::ceil(layers_of_model_ / p_);
  m_ = static_cast<double>(microbatches(plan, workload));
  // At least so much longer by what is recomputed.
  const PerBlock<Picoseconds>& span = parts.span;
  const double again = eighths_ / 8.0 * static_cast<double>(parts.again);
  whole_layer_ = static_cast<double>(span.layer_forward + span.layer_backward + span.layer_weight) + again;
  ends_ =
      static_cast<double>(span.embedding_forward + span.embedding_backward + span.head_forward + span.head_backward);
  all_layers_ = static_cast<double>(parts.all_layers) + layers_of_model_ * again;
  forward_counts_ = static_cast<double>(span.layer_forward) >= forward_share * whole_layer_;
}

double FamilyStep::less_of(Keeping keeping) const {
  if (keeping != Keeping::zero_3_chunks) return 0;
  return static_cast<double>(eighths_ > 0 ? std::max(parts_.less_in_chunks, parts_.less_again) : parts_.less_in_chunks);
}

double FamilyStep::later_of(Keeping keeping) const {
  return keeping == Keeping::zero_3_chunks && p_ > 1 ? static_cast<double>(parts_.later_in_chunks) : 0;
}

double FamilyStep::shared_of(double less) const { return m_ * (all_layers_ - layers_of_model_ * less + ends_) / p_; }

double FamilyStep::average(Keeping keeping) const {
  // A rank has no more stages than layers, or one of each of two pipes.
  return shared_of(less_of(keeping)) -
         std::max(2.0, most_) *
             (static_cast<double>(std::max(parts_.between, parts_.between_again)) + later_of(keeping));
}

double FamilyStep::on_compute(const FamilyPipeline& with, Keeping keeping) const {
  const double less = less_of(keeping);
  const double layer = std::max(0.0, whole_layer_ - less);
  // Of two pipes each rank runs a part of either, of half of the microbatches.
  const double fullest = with.two_way ? 0 : m_ * most_ * layer;
  const double passes = forward_counts_ ? std::max(with.passes, with.entered) : with.passes;
  // Of a stage's first passes a part may run before their messages arrive.
  const bool wholly_again = eighths_ > 0 && with.smallest * (8 - eighths_) < 8;  // some stage may be
  const double early = static_cast<double>(wholly_again ? parts_.between_again : parts_.between) + later_of(keeping);
  return std::max(passes * layer - std::min(with.stages * p_, layers_of_model_) * early,
                  std::max(shared_of(less), fullest) - with.stages * early);
}

FamilyStep::Needs FamilyStep::of(const FamilyPipeline& with, Keeping keeping, Picoseconds after_pipes,
                                 double enough) const {
  const FamilyParts& parts = parts_;
  const PerBlock<Picoseconds>& span = parts.span;
  const bool chunks = keeping == Keeping::zero_3_chunks, anew = chunks || keeping == Keeping::zero_3_anew;
  const auto layers = static_cast<double>(with.layers), stages = static_cast<double>(with.stages);
  const LayerState& state = keeping == Keeping::plain    ? parts.plain
                            : keeping == Keeping::zero_2 ? parts.zero_2
                                                         : parts.zero_3;
  const auto state_bytes = static_cast<double>(state.bytes), kept = static_cast<double>(parts.kept);
  const double weights =
      keeping == Keeping::zero_3_kept && with.keeps_all ? layers * static_cast<double>(state.weights) : 0;
  const double here = weights + layers * state_bytes;
  const double peak = std::max(
      {most_ * (state_bytes + least_kept_), static_cast<double>(state.all) / p_, here + with.kept * least_kept_});
  if (peak > capacity_) return {peak, 0, 0};

  const double less = less_of(keeping);
  const double layer = std::max(0.0, whole_layer_ - less);
  const double on_compute = this->on_compute(with, keeping);
  const auto behind_all = static_cast<double>(after_pipes);
  if (on_compute + behind_all >= enough) return {peak, on_compute + behind_all, 0};

  double lane = 0;
  if (keeping != Keeping::plain) {
    // Nothing is reduced before the first backward pass.
    const double follow = std::max(0.0, with.ahead - stages);  // others may begin ahead of their messages
    const double before = follow * static_cast<double>(span.layer_forward) +
                          (with.ahead - follow) * static_cast<double>(parts.busy_forward);
    // Nor before a microbatch has gone up all layers.
    const double begun = std::min(layers_of_model_, stages * p_ / (with.two_way ? 2 : 1));
    const double turn = (layers_of_model_ - begun) * static_cast<double>(span.layer_forward) +
                        begun * static_cast<double>(parts.busy_forward) +
                        static_cast<double>(span.embedding_forward + span.head_forward);
    // Then it comes down again; of a stage's first pass a part may run before its message arrives.
    const double backward = std::max(0.0, static_cast<double>(span.layer_backward) - less);
    const double back =
        std::max(0.0, with.above * backward - (p_ - 1) * (static_cast<double>(parts.between) + later_of(keeping)));
    lane = std::max(std::max(before, turn) + m_ * with.reduced * static_cast<double>(parts.reduce),
                    turn + back + m_ * with.reduced_any * static_cast<double>(parts.reduce));
  }
  if (anew) {
    const double fullest_layers = with.two_way ? std::ceil(2 * layers_of_model_ / p_) / 2 : most_;
    lane = std::max(lane, 2 * m_ * fullest_layers * static_cast<double>(state.gather));
  }
  // What does not fit is recomputed: each layer saves at most what all its microbatches in flight would keep.
  // Beside copies recomputed layers are the first that are copied; what then is missing are plain ones.
  const double kept_activations =
      eighths_ > 0 ? with.kept * stays_again_ + with.kept_plain[eighths_] * (kept - stays_again_) : with.kept * kept;
  const double shortage = here + kept_activations - capacity_;
  const double saved = with.in_flight * static_cast<double>(parts.saved);
  const double recomputed = open_ && shortage > 0 && saved > 0 ? std::ceil(shortage / saved * (1.0 - 1e-12)) : 0.0;
  const double each = with.two_way ? m_ / 2 : m_;  // microbatches of a stage
  double away = 0, delay = 0;
  if (copies_) {
    // An eighth of every stage at least; and each layer in host memory saves at most what all its microbatches in
    // flight would keep.
    const double one = eighths_ > 0 ? 0 : std::max(stages, std::ceil(layers / 8.0));
    away = one;
    if (shortage > 0 && with.in_flight > 0 && parts.copied > 0) {
      away = std::max(one, std::ceil(shortage / (with.in_flight * static_cast<double>(parts.copied)) * (1.0 - 1e-12)));
    }
    // What is copied for the first microbatch may be so ahead of its turn.
    delay = away == 0 ? 0
                      : std::max(0.0, each - 1) *
                            ((away - 1) * static_cast<double>(parts.delay) + static_cast<double>(parts.delay_at_head));
  }
  // Every rank recomputes what the one with the least in flight does, which holds so much beside its activations.
  const auto recomputing = [&](double held) {
    if (!open_ || saved <= 0) return 0.0;
    const double missing = held + with.held * kept - capacity_;
    const double count = std::ceil(std::max(0.0, missing) / saved * (1.0 - 1e-12));
    // In chunks what a recomputed layer's passes take less counts too.
    const double longer =
        static_cast<double>(parts.again) - (chunks ? std::max(0.0, static_cast<double>(parts.less_again) - less) : 0.0);
    return std::max(0.0, each * count * longer - stages * static_cast<double>(parts.between_again - parts.between));
  };
  const double recompute = recomputing(here);
  double besides = recompute;  // of any rank
  double gathered = 0;
  if (anew && parts.lead) {
    gathered = each * waits_for({state.gather, layers, stages, stages, *parts.lead}, parts.longest);
  } else if (state.away > 0 && keeping != Keeping::zero_3_kept) {
    const auto coming = [&](double count, double opened) {
      return parts.lead ? each * waits_for({parts.come, count, stages, opened, parts.compute}, parts.longest) : 0.0;
    };
    // Of weights that come for every pass every stage has some.
    const double some = recompute + coming(stages, 0);
    const double room = capacity_ - here - with.kept * least_kept_;
    const double stay = std::floor(std::max(0.0, room) / static_cast<double>(state.away) * (1.0 + 1e-12));
    if (stay < layers) {
      const double count = std::max(layers - stay, stages);
      lane = std::max(lane, 2 * each * count * static_cast<double>(parts.come));
      gathered = coming(count, stages - stay);
      besides = some;
    } else {
      besides = std::min(some, recomputing(here + layers * static_cast<double>(state.away)));
    }
  }
  double step = std::max(on_compute + std::max(std::max(delay, gathered) + recompute, besides), lane);
  if (state.together) {
    // What does not fit of states and weights is updated by the host, behind all passes, of every stage some.
    const double over = layers * static_cast<double>(state.bytes + state.moved) + with.kept * least_kept_ - capacity_;
    const double count = std::ceil(over / static_cast<double>(state.moved) * (1.0 - 1e-12));
    if (count > 0) {
      const double behind = std::max(count, stages) * static_cast<double>(state.host);
      step += behind;
      besides += behind;
    }
  }
  if (recomputed > 0) {
    const double either = chunks ? whole_layer_ - static_cast<double>(parts.less_again) : layer;
    const double work = each * (layers * either + recomputed * static_cast<double>(parts.again)) + gathered;
    const double early_again = static_cast<double>(parts.between_again + (chunks ? parts.later_in_chunks : 0));
    step = std::max(step, work - stages * early_again);
  }
  if (copies_) step = std::max(step, each * away * static_cast<double>(parts.copy));
  return {peak, step + behind_all, besides};
}

}  // namespace orrery
