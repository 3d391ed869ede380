#include "validate/fit.hpp"

#include <tbb/parallel_for.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/diagnostics.hpp"
#include "validate/software.hpp"

namespace orrery {
namespace {

constexpr double own_error = 0.04;      ///< s
constexpr double long_residual = 0.02;  ///< d
constexpr double step = 0.03;           ///< of a difference, in the logarithm of a constant
constexpr double longest_move = 0.7;    ///< of a logarithm in one iteration
constexpr double converged = 0.003;
constexpr int most_iterations = 20;

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

/// The place of a free constant, and the prior that holds it.
struct Place {
  std::size_t file = 0, cost = 0;
};

class Fitting {
 public:
  Fitting(const std::vector<PreparedRun>& all, std::vector<CostFile> files, const std::function<bool(double)>& go_on)
      : files_(std::move(files)), go_on_(go_on) {
    for (const PreparedRun& run : all) {
      if (!run.inconsistent) runs_.push_back(&run);
    }
    for (std::size_t f = 0; f < files_.size(); ++f) {
      for (std::size_t c = 0; c < files_[f].costs.size(); ++c) {
        if (files_[f].costs[c].spread > 0.0) places_.push_back({f, c});
      }
    }
    const auto n = static_cast<Eigen::Index>(runs_.size());
    const auto p = static_cast<Eigen::Index>(places_.size());
    measured_ = Vector(n);
    for (Eigen::Index i = 0; i < n; ++i) measured_[i] = std::log(*run(i).measured);
    prior_ = Vector(p);
    weight_ = Vector(p);
    for (Eigen::Index j = 0; j < p; ++j) {
      prior_[j] = std::log(cost(j).prior);
      weight_[j] = 1.0 / (cost(j).spread * cost(j).spread);
    }
  }

  std::optional<Fit> result() {
    x_ = prior_;
    predicted_ = times(x_);
    for (int i = 0; i < most_iterations; ++i) {
      if (!told((i + 0.5) / (most_iterations + 1.0))) return std::nullopt;
      differentiate();
      if (!improve()) break;
    }
    differentiate();
    if (!told(0.97)) return std::nullopt;
    return finished();
  }

 private:
  [[nodiscard]] const PreparedRun& run(Eigen::Index i) const { return *runs_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] FittedCost& cost(Eigen::Index j) {
    const Place& at = places_[static_cast<std::size_t>(j)];
    return files_[at.file].costs[at.cost];
  }
  [[nodiscard]] bool told(double share) const { return !go_on_ || go_on_(share); }

  [[nodiscard]] std::vector<CostFile> with(const Vector& x) const {
    std::vector<CostFile> out = files_;
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      const Place& at = places_[static_cast<std::size_t>(j)];
      out[at.file].costs[at.cost].value = std::exp(x[j]);
    }
    return out;
  }

  [[nodiscard]] Vector times(const Vector& x) const {
    const std::vector<CostFile> files = with(x);
    Vector out(measured_.size());
    tbb::parallel_for(Eigen::Index{0}, out.size(),
                      [&](Eigen::Index i) { out[i] = std::log(step_time(run(i), costs_of(files, run(i).labels))); });
    return out;
  }

  void differentiate() {
    slope_ = Matrix::Zero(measured_.size(), x_.size());
    std::vector<std::vector<CostFile>> moved;
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      Vector x = x_;
      x[j] += step;
      moved.push_back(with(x));
    }
    tbb::parallel_for(Eigen::Index{0}, measured_.size(), [&](Eigen::Index i) {
      for (Eigen::Index j = 0; j < x_.size(); ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (!applies(files_[places_[at].file], run(i).labels)) continue;
        slope_(i, j) = (std::log(step_time(run(i), costs_of(moved[at], run(i).labels))) - predicted_[i]) / step;
      }
    });
  }

  [[nodiscard]] double loss(const Vector& x, const Vector& predicted) const {
    double sum = ((x - prior_).array().square() * weight_.array()).sum();
    for (Eigen::Index i = 0; i < measured_.size(); ++i) {
      const double r = (measured_[i] - predicted[i]) / long_residual;
      sum += 2.0 * (std::sqrt(1.0 + r * r) - 1.0) * long_residual * long_residual / (own_error * own_error);
    }
    return sum;
  }

  /// Normal equations around `x` with residuals r; runs for which `left_out` holds do not count.
  template <class LeftOut>
  [[nodiscard]] Vector move(const Vector& x, const Vector& r, const LeftOut& left_out, Matrix* normal = nullptr) const {
    Vector w(r.size());
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      const double far = r[i] / long_residual;
      w[i] = left_out(i) ? 0.0 : 1.0 / (own_error * own_error * std::sqrt(1.0 + far * far));
    }
    Matrix a = slope_.transpose() * w.asDiagonal() * slope_;
    a.diagonal() += weight_;
    const Vector g = slope_.transpose() * w.cwiseProduct(r) - weight_.cwiseProduct(x - prior_);
    if (normal != nullptr) *normal = a;
    return a.ldlt().solve(g);
  }

  /// Makes one iteration; returns false when nothing moves any more.
  bool improve() {
    const Vector r = measured_ - predicted_;
    Vector d = move(x_, r, [](Eigen::Index) { return false; });
    d = d.cwiseMax(-longest_move).cwiseMin(longest_move);
    const double before = loss(x_, predicted_);
    for (double share = 1.0; share > 0.05; share *= 0.5) {
      const Vector x = x_ + share * d;
      const Vector predicted = times(x);
      if (loss(x, predicted) >= before) continue;
      x_ = x;
      predicted_ = predicted;
      return share * d.cwiseAbs().maxCoeff() > converged;
    }
    return false;
  }

  /// Errors in percent, each with constants fitted without the runs that have the same `key`.
  template <class Key>
  [[nodiscard]] std::vector<double> held_out(const Key& key) const {
    std::map<std::string, std::vector<Eigen::Index>> groups;
    for (Eigen::Index i = 0; i < measured_.size(); ++i) groups[key(run(i))].push_back(i);
    const Vector r = measured_ - predicted_;
    std::vector<double> out(runs_.size());
    for (const auto& [name, members] : groups) {
      std::vector<char> left_out(runs_.size(), 0);
      for (const Eigen::Index i : members) left_out[static_cast<std::size_t>(i)] = 1;
      const auto is_out = [&](Eigen::Index i) { return left_out[static_cast<std::size_t>(i)] != 0; };
      Vector x = x_;
      for (int again = 0; again < 3; ++again) x += move(x, r - slope_ * (x - x_), is_out);
      const std::vector<CostFile> files = with(x);
      for (const Eigen::Index i : members) {
        out[static_cast<std::size_t>(i)] =
            error_pct(step_time(run(i), costs_of(files, run(i).labels)), *run(i).measured);
      }
    }
    return out;
  }

  Fit finished() {
    Fit fit;
    fit.free_constants = places_.size();
    fit.runs = runs_.size();
    Matrix normal;
    (void)move(
        x_, measured_ - predicted_, [](Eigen::Index) { return false; }, &normal);
    const Matrix covariance = normal.ldlt().solve(Matrix::Identity(normal.rows(), normal.cols()));
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      cost(j).value = std::exp(x_[j]);
      cost(j).uncertainty = std::sqrt(covariance(j, j));
    }
    std::vector<double> in_sample;
    for (Eigen::Index i = 0; i < measured_.size(); ++i) {
      in_sample.push_back(error_pct(std::exp(predicted_[i]), *run(i).measured));
    }
    fit.in_sample = summarize_errors(in_sample);
    fit.held_out_pct = held_out([](const PreparedRun& p) { return p.architecture; });
    fit.held_out = summarize_errors(fit.held_out_pct);
    fit.without_program = summarize_errors(held_out([](const PreparedRun& p) {
      return std::string(p.labels.frameworks.empty() ? std::string_view{} : p.labels.frameworks.front());
    }));
    fit.without_device = summarize_errors(held_out([](const PreparedRun& p) { return p.calibration.name; }));
    fit.without_source = summarize_errors(held_out([](const PreparedRun& p) { return p.source; }));
    const std::vector<double> without_itself = held_out([](const PreparedRun& p) { return p.id; });
    for (CostFile& file : files_) describe(file, fit, without_itself);
    for (CostFile& file : files_) describe_unnamed(file);
    for (CostFile& file : files_) describe_unmeasured(file);
    fit.files = std::move(files_);
    return fit;
  }

  void describe(CostFile& file, const Fit& fit, const std::vector<double>& without_itself) const {
    file.runs.clear();
    file.devices.clear();
    file.architectures.clear();
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (!applies(file, runs_[i]->labels)) continue;
      members.push_back(i);
      file.runs.push_back(runs_[i]->id);
      if (!file.device.empty() && file.framework.empty() && runs_[i]->labels.devices.front() == file.device)
        ++file.devices[runs_[i]->calibration.name];
      if (file.device.empty() && file.framework.empty()) file.architectures.push_back(runs_[i]->architecture);
    }
    std::sort(file.architectures.begin(), file.architectures.end());
    file.architectures.erase(std::unique(file.architectures.begin(), file.architectures.end()),
                             file.architectures.end());
    const auto describe_kinds = [&](const std::vector<double>& of, HeldOutErrors& all, HeldOutErrors& dense,
                                    HeldOutErrors& mixtures) {
      std::vector<double> errors, parts[2];
      for (const std::size_t i : members) {
        errors.push_back(of[i]);
        parts[runs_[i]->run.model.mixture ? 1 : 0].push_back(of[i]);
      }
      const bool mixed = !parts[0].empty() && !parts[1].empty();
      all = errors_of_list(errors);
      dense = mixed ? errors_of_list(parts[0]) : HeldOutErrors{};
      mixtures = mixed ? errors_of_list(parts[1]) : HeldOutErrors{};
    };
    describe_kinds(fit.held_out_pct, file.errors, file.dense, file.mixtures);
    describe_kinds(without_itself, file.seen, file.seen_dense, file.seen_mixtures);
  }

  /// Every file has its runs by now, and they decide which program is the usual one.
  void describe_unnamed(CostFile& file) const {
    std::vector<double> errors;
    for (const PreparedRun* run : runs_) {
      const bool family =
          file.framework.empty() && !run->labels.devices.empty() && run->labels.devices.front() == file.device;
      const TrainingProgram* usual = family ? usual_program(files_, run->calibration.name) : nullptr;
      if (usual == nullptr) continue;
      const CostLabels labels = labels_of(*usual, run->calibration.name, run->run.workload.precision);
      errors.push_back(error_pct(step_time(*run, costs_of(files_, labels)), *run->measured));
    }
    file.unnamed = errors_of_list(errors);
  }

  /// Prices every run as one on a device without a family, whose calibration is that of datasheet figures.
  void describe_unmeasured(CostFile& file) const {
    if (!file.device.empty() || !file.framework.empty()) return;
    std::vector<double> unnamed, named;
    for (const PreparedRun* run : runs_) {
      const SoftwareCosts any = costs_of(files_, CostLabels{}), own = costs_of(files_, {{}, run->labels.frameworks});
      unnamed.push_back(error_pct(unmeasured_step_time(*run, any), *run->measured));
      named.push_back(error_pct(unmeasured_step_time(*run, own), *run->measured));
    }
    file.unmeasured = errors_of_list(unnamed);
    file.unmeasured_named = errors_of_list(named);
  }

  /// Summarizes signed errors in percent, with the conformal interval of one run more:
  ///
  ///     low   the k-th smallest ratio of measured to predicted time,  high  the k-th largest,  k = (n + 1) / 10
  ///
  /// If the n runs and the next are alike (exchangeable), it lies below `low` with a chance of k / (n + 1), a tenth,
  /// and so above. Between two runs the ratio is interpolated; of fewer than nine the extremes are taken. Source: Vovk,
  /// Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005, as split conformal prediction; the errors
  /// are those of fits that have not seen the run's architecture.
  [[nodiscard]] static HeldOutErrors errors_of_list(const std::vector<double>& errors) {
    const ErrorSummary s = summarize_errors(errors);
    HeldOutErrors out{s.n, s.mape_pct, s.median_pct, s.bias_pct, 1.0, 1.0, {}};
    if (errors.empty()) return out;
    std::vector<double> ratios;
    for (const double e : errors) ratios.push_back(1.0 / (1.0 + e / 100.0));
    std::sort(ratios.begin(), ratios.end());
    const double place = std::max(0.0, static_cast<double>(ratios.size() + 1) / 10.0 - 1.0);
    const auto k = static_cast<std::size_t>(place);
    const double between = place - static_cast<double>(k);
    const std::size_t last = ratios.size() - 1;
    const auto at = [&](std::size_t i, std::size_t next) { return ratios[i] + between * (ratios[next] - ratios[i]); };
    out.low = std::min(1.0, at(k, std::min(k + 1, last)));
    out.high = std::max(1.0, at(last - k, last - std::min(k + 1, last)));
    return out;
  }

  std::vector<CostFile> files_;
  const std::function<bool(double)>& go_on_;
  std::vector<const PreparedRun*> runs_;
  std::vector<Place> places_;
  Vector measured_, predicted_, prior_, weight_, x_;
  Matrix slope_;  ///< derivative of the logarithm of a run's time by that of a constant
};

}  // namespace

std::optional<Fit> fit_costs(const std::vector<PreparedRun>& runs, std::vector<CostFile> files,
                             const std::function<bool(double)>& go_on) {
  return Fitting(runs, std::move(files), go_on).result();
}

FitComparison compare_fits(const std::vector<PreparedRun>& runs, const std::vector<CostFile>& before, const Fit& fit) {
  std::vector<std::string> seen;
  double recorded = 0.0;
  for (const CostFile& file : before) {
    seen.insert(seen.end(), file.runs.begin(), file.runs.end());
    if (file.device.empty() && file.framework.empty()) recorded = file.errors.mape_pct;
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  FitComparison out;
  std::vector<double> old_errors, new_errors;
  std::size_t at = 0;
  for (const PreparedRun& run : runs) {
    if (run.inconsistent) continue;
    const double held_out = fit.held_out_pct[at++];
    if (std::binary_search(seen.begin(), seen.end(), run.id)) continue;
    old_errors.push_back(error_pct(step_time(run, costs_of(before, run.labels)), *run.measured));
    new_errors.push_back(held_out);
  }
  out.unseen = old_errors.size();
  out.missing = seen.size() - (at - out.unseen);
  out.before_pct = old_errors.empty() ? recorded : summarize_errors(old_errors).mape_pct;
  out.after_pct = old_errors.empty() ? fit.held_out.mape_pct : summarize_errors(new_errors).mape_pct;
  return out;
}

}  // namespace orrery
