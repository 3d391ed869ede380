#include "validate/serving_fit.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <map>

namespace orrery {
namespace {

constexpr double error_anyway = 0.1;
constexpr double bend = 0.1;
constexpr double ttft_weight = 0.1;

/// A cost that is fitted: of one engine, or (no engine) of all.
struct Place {
  EngineFigure* figure;
  const Engine* engine;
};

class Fitter {
 public:
  Fitter(EngineTable table, const std::vector<const ServingCase*>& cases) : table_(std::move(table)), cases_(cases) {
    for (EngineFigure& f : table_.shared) {
      if (f.spread > 0.0) places_.push_back({&f, nullptr});
    }
    for (Engine& e : table_.engines) {
      for (EngineFigure& f : e.own) {
        if (f.spread > 0.0) places_.push_back({&f, &e});
      }
    }
    for (const ServingCase* c : cases_) engine_of_.push_back(table_.find(c->engine));
  }

  EngineTable fitted(int rounds) {
    const auto n = static_cast<Eigen::Index>(places_.size());
    Eigen::VectorXd x(n);
    for (Eigen::Index j = 0; j < n; ++j) x[j] = std::log(place(j).figure->prior);
    double damping = 1e-3;
    set(x);
    std::vector<double> r = residuals();
    double loss = loss_of(r, x);
    for (int round = 0; round < rounds; ++round) {
      Eigen::MatrixXd h = Eigen::MatrixXd::Zero(n, n);
      Eigen::VectorXd g = Eigen::VectorXd::Zero(n);
      normal_equations(x, r, h, g);
      bool better = false;
      double gained = 0.0;
      for (int t = 0; t < 8 && !better; ++t) {
        Eigen::MatrixXd a = h;
        a.diagonal() *= 1.0 + damping;
        const Eigen::VectorXd step = a.ldlt().solve(g);
        const Eigen::VectorXd tried = x - step;
        set(tried);
        const std::vector<double> r2 = residuals();
        const double l2 = loss_of(r2, tried);
        if (l2 < loss) {
          gained = loss - l2;
          x = tried;
          r = r2;
          loss = l2;
          better = true;
          damping = std::max(1e-6, damping * 0.3);
        } else {
          damping *= 5.0;
        }
      }
      if (!better || gained < 1e-5 * loss) break;
    }
    set(x);
    return table_;
  }

 private:
  [[nodiscard]] const Place& place(Eigen::Index j) const { return places_[static_cast<std::size_t>(j)]; }

  void set(const Eigen::VectorXd& x) {
    for (Eigen::Index j = 0; j < x.size(); ++j) place(j).figure->value = std::exp(x[j]);
    table_.set_costs();
  }

  /// Two for each case: of TPOT and of TTFT.
  void residual(std::size_t i, double* into) const {
    const ServingCase& c = *cases_[i];
    const ServingTimes t = predicted(c, engine_of_[i]->costs);
    into[0] = std::log(t.tpot.in(second) / *c.tpot_s);
    into[1] = c.ttft_s && !t.saturated ? std::log(t.ttft.in(second) / *c.ttft_s) : 0.0;
  }

  [[nodiscard]] std::vector<double> residuals() const {
    std::vector<double> out(2 * cases_.size());
    for (std::size_t i = 0; i < cases_.size(); ++i) residual(i, &out[2 * i]);
    return out;
  }

  static double weight(std::size_t i) { return (i % 2 == 0 ? 1.0 : ttft_weight) / (error_anyway * error_anyway); }

  [[nodiscard]] double loss_of(const std::vector<double>& r, const Eigen::VectorXd& x) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double z = r[i] / bend;
      sum += weight(i) * 2.0 * bend * bend * (std::sqrt(1.0 + z * z) - 1.0);
    }
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      const double off = (x[j] - std::log(place(j).figure->prior)) / place(j).figure->spread;
      sum += off * off;
    }
    return sum;
  }

  void normal_equations(const Eigen::VectorXd& x, const std::vector<double>& r, Eigen::MatrixXd& h,
                        Eigen::VectorXd& g) {
    const Eigen::Index n = x.size();
    constexpr double delta = 1e-4;
    Eigen::MatrixXd jacobian = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(r.size()), n);
    for (Eigen::Index j = 0; j < n; ++j) {
      Eigen::VectorXd moved = x;
      moved[j] += delta;
      set(moved);
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        if (place(j).engine != nullptr && place(j).engine != engine_of_[i]) continue;
        double two[2];
        residual(i, two);
        for (std::size_t k = 0; k < 2; ++k) {
          jacobian(static_cast<Eigen::Index>(2 * i + k), j) = (two[k] - r[2 * i + k]) / delta;
        }
      }
    }
    set(x);
    Eigen::VectorXd weights(static_cast<Eigen::Index>(r.size()));
    Eigen::VectorXd weighted(static_cast<Eigen::Index>(r.size()));
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double z = r[i] / bend;
      const double w = weight(i) / std::sqrt(1.0 + z * z);
      weights[static_cast<Eigen::Index>(i)] = w;
      weighted[static_cast<Eigen::Index>(i)] = w * r[i];
    }
    h = jacobian.transpose() * weights.asDiagonal() * jacobian;
    g = jacobian.transpose() * weighted;
    for (Eigen::Index j = 0; j < n; ++j) {
      const double spread = place(j).figure->spread;
      h(j, j) += 1.0 / (spread * spread);
      g[j] += (x[j] - std::log(place(j).figure->prior)) / (spread * spread);
    }
  }

  EngineTable table_;
  std::vector<const ServingCase*> cases_;
  std::vector<Place> places_;
  std::vector<const Engine*> engine_of_;
};

}  // namespace

bool is_fitted_to(const ServingCase& c) { return c.pool == "aggregated"; }

EngineTable fit_engines(EngineTable table, const std::vector<const ServingCase*>& cases) {
  return Fitter(std::move(table), cases).fitted(60);
}

std::vector<ServingTimes> held_out(const EngineTable& table, const std::vector<ServingCase>& cases,
                                   const std::function<std::string(const ServingCase&)>& key,
                                   const std::function<bool(double)>& go_on) {
  std::vector<ServingTimes> out(cases.size());
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < cases.size(); ++i) groups[key(cases[i])].push_back(i);
  std::size_t done = 0;
  for (const auto& [name, of_group] : groups) {
    if (go_on && !go_on(static_cast<double>(done++) / static_cast<double>(groups.size()))) break;
    std::vector<const ServingCase*> others;
    for (const ServingCase& c : cases) {
      if (is_fitted_to(c) && key(c) != name) others.push_back(&c);
    }
    const EngineTable without = fit_engines(table, others);
    for (const std::size_t i : of_group) {
      out[i] = predicted(cases[i], without.find(cases[i].engine)->costs);
    }
  }
  return out;
}

}  // namespace orrery
