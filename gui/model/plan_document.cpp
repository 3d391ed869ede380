#include "gui/model/plan_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <QUndoCommand>

#include "core/plan/plan_file.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery::gui {
/// One step of the history.
class RunChange : public QUndoCommand {
 public:
  RunChange(PlanDocument& document, std::shared_ptr<const PricedRun> after, const QString& what, const Dimension* of,
            bool continues)
      : document_(document), before_(document.current_), after_(std::move(after)), of_(of), continues_(continues) {
    setText(what);
  }
  void undo() override { document_.set(document_.renewed(before_)); }
  void redo() override { document_.set(document_.renewed(after_)); }
  int id() const override { return of_ == nullptr ? -1 : static_cast<int>(of_ - dimensions().data()); }
  bool mergeWith(const QUndoCommand* other) override {
    const auto* next = static_cast<const RunChange*>(other);
    if (!next->continues_) return false;
    after_ = next->after_;
    setText(other->text());
    return true;
  }

 private:
  PlanDocument& document_;
  std::shared_ptr<const PricedRun> before_, after_;
  const Dimension* of_;
  bool continues_;
};

PlanDocument::PlanDocument(Library library, std::filesystem::path own_calibration, unsigned cores, QObject* parent)
    : QObject(parent), library_(std::move(library)), own_calibration_(std::move(own_calibration)), cores_(cores) {}

std::shared_ptr<const CalibrationChoice> PlanDocument::prices_of(const ClusterSpec& cluster, Precision precision,
                                                                 const RunSettings& settings, Diagnostics& d) const {
  PriceWishes wishes;
  wishes.own_calibration = own_calibration_;
  wishes.software = settings.software;
  auto chosen = choose_calibration(wishes, library_, cluster, precision, d);
  return chosen ? std::make_shared<const CalibrationChoice>(std::move(*chosen)) : nullptr;
}

std::shared_ptr<const PricedRun> PlanDocument::price(PlannedRun run, Diagnostics& d) const {
  return price(std::move(run), settings_, d);
}

std::shared_ptr<const PricedRun> PlanDocument::price(PlannedRun run, RunSettings settings, Diagnostics& d) const {
  const ClusterSpec& cluster = *run.cluster;
  if (settings.memory_margin && *settings.memory_margin >= least_memory(cluster)) settings.memory_margin.reset();
  Diagnostics refused;
  auto prices = prices_of(cluster, run.workload.precision, settings, refused);
  if (prices == nullptr && settings.software != "auto") {
    settings.software = "auto";
    refused = {};
    prices = prices_of(cluster, run.workload.precision, settings, refused);
  }
  if (prices == nullptr) {
    for (const Diagnostic& m : refused.list()) d.add(m);
    return nullptr;
  }
  return std::make_shared<const PricedRun>(PricedRun{std::move(run), std::move(prices), settings});
}

bool PlanDocument::take(PlannedRun run, const QString& what, Diagnostics& d) {
  auto after = price(std::move(run), d);
  if (after == nullptr) return false;
  push(std::move(after), what);
  return true;
}

bool PlanDocument::has_changes() const {
  if (!is_open() || history_.isClean()) return false;
  return saved_ == nullptr || write_plan(saved_->run) != write_plan(run());
}

bool PlanDocument::discard_changes() {
  if (!has_changes()) return true;
  if (saved_ == nullptr) return false;
  // Settings are not changes of the plan, so they stay.
  Diagnostics ignored;
  auto back = price(saved_->run, ignored);
  history_.clear();
  set(back == nullptr ? saved_ : std::move(back));
  return true;
}

void PlanDocument::set(std::shared_ptr<const PricedRun> now) {
  current_ = std::move(now);
  settings_ = current_->settings;
  Q_EMIT changed();
}

std::shared_ptr<const PricedRun> PlanDocument::priced(Move move) const {
  const bool other =
      move.run.cluster->device != run().cluster->device || move.run.workload.precision != run().workload.precision;
  if (other) {
    Diagnostics d;  // shipped clusters have prices
    if (auto anew = price(move.run, d)) return anew;
  }
  return std::make_shared<const PricedRun>(PricedRun{std::move(move.run), current_->prices, settings_});
}

void PlanDocument::push(Move move, const QString& what, const Dimension* of, bool continues) {
  history_.push(new RunChange(*this, priced(std::move(move)), what, of, continues));
}

void PlanDocument::push(std::shared_ptr<const PricedRun> after, const QString& what) {
  history_.push(new RunChange(*this, std::move(after), what, nullptr, false));
}

std::shared_ptr<const PricedRun> PlanDocument::renewed(const std::shared_ptr<const PricedRun>& given) const {
  if (!calibrated_) return given;
  Diagnostics ignored;
  auto now = price(given->run, given->settings, ignored);
  return now == nullptr || now->prices->calibration == given->prices->calibration ? given : now;
}

void PlanDocument::wish(const Dimension& d, std::uint64_t value, bool continues) {
  if (value == d.get(run())) return;
  Answer got = answer(run(), d, value);
  const bool met = got.reason.empty();
  const std::string also = fmt::format("{}", fmt::join(got.move.also, "; "));
  const std::string text = met ? (also.empty() ? "" : "With it: " + also + ".")
                               : fmt::format("{} Nearest: {}.", got.reason, text_of(d, got.value));
  const bool moves = got.value != d.get(run());
  const QString what = QString::fromStdString(fmt::format("{} {}", d.label, text_of(d, got.value)));
  if (moves) push(std::move(got.move), what, &d, continues);
  // A wish that moves nothing still makes views show the current values.
  if (!moves) Q_EMIT changed();
  Q_EMIT answered(met, QString::fromStdString(text));
}

bool PlanDocument::choose_model(const std::string& reference, Diagnostics& d) {
  auto found = look_at_model(reference, d);
  if (found) take(std::move(*found));
  return found.has_value();
}

bool PlanDocument::choose_cluster(const std::string& reference, Diagnostics& d) {
  auto found = look_at_cluster(reference, d);
  if (found) take(std::move(*found));
  return found.has_value();
}

bool PlanDocument::choose_software(const std::string& name, Diagnostics& d) {
  if (name == settings_.software) return true;
  RunSettings wished = settings_;
  wished.software = name;
  auto prices = prices_of(*run().cluster, run().workload.precision, wished, d);
  if (prices == nullptr) return false;
  push(std::make_shared<const PricedRun>(PricedRun{run(), std::move(prices), wished}),
       tr("Software %1").arg(QString::fromStdString(name)));
  return true;
}

bool PlanDocument::choose_memory_margin(const std::string& text, Diagnostics& d) {
  const auto margin = read_margin(text, *run().cluster, d);
  if (!margin) return false;
  if (*margin == settings_.memory_margin) return true;
  PricedRun after = *current_;
  after.settings.memory_margin = *margin;
  push(std::make_shared<const PricedRun>(std::move(after)),
       tr("Memory margin %1").arg(QString::fromStdString(margin_text(*margin))));
  return true;
}

std::shared_ptr<const PricedRun> PlanDocument::on_this_machine(const PricedRun& given, Diagnostics& d) const {
  PricedRun out = given;
  ClusterSpec& cluster = *out.run.cluster;
  if (cluster.device.cores_shared == 0) {
    auto local = library_.cluster("local-cpu", ".", std::nullopt, d);
    if (!local) return nullptr;
    cluster = std::move(*local);
    adapt_to_cores(cluster, cores_);
    // The ranks are on one machine, however many there are.
    cluster.devices_per_node = static_cast<std::uint32_t>(out.run.plan.mesh.size());
    for (NetworkLevel& level : cluster.levels) level.size = cluster.devices_per_node;
    out.run.plan.placement.clear();
  }
  return price(std::move(out.run), given.settings, d);
}

void PlanDocument::renew_prices() {
  calibrated_ = true;
  if (!is_open()) return;
  Diagnostics d;
  if (auto now = price(run(), d)) set(std::move(now));
}

void PlanDocument::adopt(const Plan& plan, const PricedRun& on, const QString& what) {
  PricedRun after = on;
  after.run.plan = plan;
  after.run.plan.name = run().plan.name;
  push(renewed(std::make_shared<const PricedRun>(std::move(after))), what);
}

}  // namespace orrery::gui
