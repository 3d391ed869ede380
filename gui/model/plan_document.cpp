#include "gui/model/plan_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <QSaveFile>
#include <QUndoCommand>
#include <fstream>

#include "core/base/toml_reader.hpp"
#include "core/plan/plan_file.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/spec/hf_config.hpp"

namespace orrery::gui {

/// One step of the history.
class RunChange : public QUndoCommand {
 public:
  RunChange(PlanDocument& document, std::shared_ptr<const PricedRun> after, const QString& what,
            std::optional<Dimension> of, bool continues)
      : document_(document), before_(document.current_), after_(std::move(after)), of_(of), continues_(continues) {
    setText(what);
  }
  void undo() override { document_.set(before_); }
  void redo() override { document_.set(after_); }
  int id() const override { return of_ ? static_cast<int>(*of_) : -1; }
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
  std::optional<Dimension> of_;
  bool continues_;
};

PlanDocument::PlanDocument(Library library, std::filesystem::path own_calibration, unsigned cores, QObject* parent)
    : QObject(parent), library_(std::move(library)), own_calibration_(std::move(own_calibration)), cores_(cores) {}

std::shared_ptr<const CalibrationChoice> PlanDocument::prices_of(const ClusterSpec& cluster, Precision precision,
                                                                 Diagnostics& d) {
  PriceWishes wishes;
  wishes.own_calibration = own_calibration_;
  auto chosen = choose_calibration(wishes, library_, cluster, precision, d);
  return chosen ? std::make_shared<const CalibrationChoice>(std::move(*chosen)) : nullptr;
}

std::optional<PlannedRun> PlanDocument::read(const std::filesystem::path& file, Diagnostics& d) const {
  auto run = read_plan_file(file, library_, std::nullopt, d);
  if (!run) return std::nullopt;
  if (!run->cluster) {
    d.error("gui.cluster", "the plan names no cluster", {"Write cluster = \"...\" into the plan."});
    return std::nullopt;
  }
  adapt_to_cores(*run->cluster, cores_);
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  run->model_reference = library_.portable_model(run->model_reference, folder);
  run->cluster_reference = portable(run->cluster_reference, folder);
  if (!run->plan.order_file.empty()) run->plan.order_file = std::filesystem::absolute(run->plan.order_file).string();
  return run;
}

std::shared_ptr<const PricedRun> PlanDocument::read_priced(const std::filesystem::path& file, Diagnostics& d) {
  auto run = read(file, d);
  return run ? price(std::move(*run), d) : nullptr;
}

std::shared_ptr<const PricedRun> PlanDocument::price(PlannedRun run, Diagnostics& d) {
  auto prices = prices_of(*run.cluster, run.workload.precision, d);
  if (prices == nullptr) return nullptr;
  return std::make_shared<const PricedRun>(PricedRun{std::move(run), std::move(prices)});
}

bool PlanDocument::take(PlannedRun run, const QString& what, Diagnostics& d) {
  auto after = price(std::move(run), d);
  if (after == nullptr) return false;
  history_.push(new RunChange(*this, std::move(after), what, std::nullopt, false));
  return true;
}

bool PlanDocument::load(const std::filesystem::path& file, Diagnostics& d) {
  auto opened = read_priced(file, d);
  if (opened == nullptr) return false;
  history_.clear();
  set(std::move(opened));
  return true;
}

bool PlanDocument::restore(const std::filesystem::path& from, const std::filesystem::path& path, bool saved,
                           Diagnostics& d) {
  if (!load(from, d)) return false;
  path_ = path;
  if (!saved) history_.resetClean();
  Q_EMIT changed();
  return true;
}

bool PlanDocument::open(const std::filesystem::path& file, Diagnostics& d) {
  if (!load(file, d)) return false;
  path_ = file;
  Q_EMIT changed();
  return true;
}

bool PlanDocument::open_example(const std::string& name, Diagnostics& d) {
  if (!load(library_.plan(name), d)) return false;
  path_.clear();
  Q_EMIT changed();
  return true;
}

bool PlanDocument::save(const std::filesystem::path& file, QString& why) {
  QSaveFile out(QString::fromStdString(file.string()));
  const std::string text = write_plan(run());
  if (!out.open(QIODevice::WriteOnly) || out.write(text.data(), static_cast<qint64>(text.size())) < 0 ||
      !out.commit()) {
    why = out.errorString();
    return false;
  }
  path_ = file;
  history_.setClean();
  Q_EMIT changed();
  return true;
}

void PlanDocument::set(std::shared_ptr<const PricedRun> now) {
  current_ = std::move(now);
  Q_EMIT changed();
}

void PlanDocument::push(Move move, const QString& what, std::optional<Dimension> of, bool continues) {
  auto prices = current_->prices;
  if (move.run.cluster->device != run().cluster->device || move.run.workload.precision != run().workload.precision) {
    Diagnostics d;  // shipped clusters have prices
    if (auto other = prices_of(*move.run.cluster, move.run.workload.precision, d)) prices = std::move(other);
  }
  auto after = std::make_shared<const PricedRun>(PricedRun{std::move(move.run), std::move(prices)});
  history_.push(new RunChange(*this, std::move(after), what, of, continues));
}

void PlanDocument::wish(Dimension d, std::uint64_t value, bool continues) {
  if (value == value_of(run(), d)) return;
  Answer got = answer(run(), d, value);
  const bool met = got.reason.empty();
  const std::string also = fmt::format("{}", fmt::join(got.move.also, "; "));
  const std::string text = met ? (also.empty() ? "" : "With it: " + also + ".")
                               : fmt::format("{} Nearest: {}.", got.reason, text_of(d, got.value));
  const bool moves = got.value != value_of(run(), d);
  const QString what = QString::fromStdString(fmt::format("{} {}", info(d).label, text_of(d, got.value)));
  if (moves) push(std::move(got.move), what, d, continues);
  // A wish that moves nothing still ends with views that show what is.
  if (!moves) Q_EMIT changed();
  Q_EMIT answered(d, met, QString::fromStdString(text));
}

bool PlanDocument::choose_model(const std::string& reference, Diagnostics& d) {
  const std::string name = library_.portable_model(reference, ".");
  auto model = library_.model(name, ".", d);
  if (!model) return false;
  std::string reason;
  auto move = with_model(run(), std::move(*model), name, reason);
  if (!move) {
    d.error("gui.model", "no plan near this one trains the model on this cluster", {reason});
    return false;
  }
  push(std::move(*move), tr("Model %1").arg(QString::fromStdString(reference)));
  return true;
}

bool PlanDocument::choose_cluster(const std::string& reference, Diagnostics& d) {
  const std::string name = portable(reference, ".");
  auto cluster = library_.cluster(name, ".", std::nullopt, d);
  if (!cluster) return false;
  adapt_to_cores(*cluster, cores_);
  if (!prices_of(*cluster, run().workload.precision, d)) return false;
  std::string reason;
  auto move = with_cluster(run(), std::move(*cluster), name, reason);
  if (!move) {
    d.error("gui.cluster", "no plan near this one runs on the cluster", {reason});
    return false;
  }
  push(std::move(*move), tr("Cluster %1").arg(QString::fromStdString(reference)));
  return true;
}

bool PlanDocument::take_file(const std::filesystem::path& file, Diagnostics& d) {
  const std::string name = std::filesystem::absolute(file).string();
  const std::string known = "Known: plans, models and clusters (.toml), and config.json of a Hugging Face model.";
  // Traces may be long; their heads tell them.
  std::string head(4096, ' ');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  if (file.extension() == ".json" || looks_like_hf_config(head)) {
    if (looks_like_trace(head) || head.find("\"traceEvents\"") != std::string::npos) {
      d.error("gui.file", fmt::format("{} is a trace", file.filename().string()),
              {"Validate (F8), Import sets a step that orrery or PyTorch's profiler recorded beside the prediction; "
               "Compare (F7) takes it as the "
               "second side."});
      return false;
    }
    return choose_model(name, d);
  }
  const auto text = read_text(file, d);
  if (!text) return false;
  if (text->find('\0') != std::string::npos) {
    d.error("gui.file", fmt::format("{} is no text", file.filename().string()), {known});
    return false;
  }
  const auto root = parse_toml(*text, name, d);
  if (!root) return false;
  // Each kind of file has a table that no other has; a plan names what others have in tables.
  if (root->has("plan") || root->has("mesh") || root->is_text("model") || root->is_text("cluster"))
    return open(file, d);
  if (root->has("model")) return choose_model(name, d);
  if (root->has("cluster")) return choose_cluster(name, d);
  d.error("gui.file", fmt::format("{} is nothing that can be shown here", file.filename().string()), {known});
  return false;
}

std::shared_ptr<const PricedRun> PlanDocument::on_this_machine(const PricedRun& given, Diagnostics& d) {
  PricedRun out = given;
  ClusterSpec& cluster = *out.run.cluster;
  if (cluster.device.cores_shared == 0) {
    auto local = library_.cluster("local-cpu", ".", std::nullopt, d);
    if (!local) return nullptr;
    cluster = std::move(*local);
    adapt_to_cores(cluster, cores_);
    // One machine, however many ranks.
    cluster.devices_per_node = static_cast<std::uint32_t>(out.run.plan.mesh.size());
    for (NetworkLevel& level : cluster.levels) level.size = cluster.devices_per_node;
    out.run.plan.placement.clear();
  }
  out.prices = prices_of(cluster, out.run.workload.precision, d);
  return out.prices == nullptr ? nullptr : std::make_shared<const PricedRun>(std::move(out));
}

void PlanDocument::renew_prices() {
  if (!is_open()) return;
  Diagnostics d;
  auto prices = prices_of(*run().cluster, run().workload.precision, d);
  if (prices) set(std::make_shared<const PricedRun>(PricedRun{run(), std::move(prices)}));
}

void PlanDocument::adopt(const Plan& plan, const PricedRun& on, const QString& what) {
  Move move{on.run, {}};
  move.run.plan = plan;
  move.run.plan.name = run().plan.name;
  push(std::move(move), what);
}

}  // namespace orrery::gui
