#include <fmt/format.h>

#include <QSaveFile>
#include <fstream>

#include "core/base/toml_reader.hpp"
#include "core/plan/plan_file.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/spec/hf_config.hpp"
#include "gui/model/plan_document.hpp"

// How files change the document, and how it is written to them.

namespace orrery::gui {

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

std::shared_ptr<const PricedRun> PlanDocument::read_priced(const std::filesystem::path& file, Diagnostics& d) const {
  auto run = read(file, d);
  return run ? price(std::move(*run), d) : nullptr;
}

std::optional<PlanDocument::Candidate> PlanDocument::look_at_model(const std::string& reference, Diagnostics& d) const {
  const std::string name = library_.portable_model(reference, ".");
  auto model = library_.model(name, ".", d);
  if (!model) return std::nullopt;
  std::string reason;
  auto move = with_model(run(), std::move(*model), name, reason);
  if (!move) {
    d.error("gui.model", "no plan near this one trains the model on this cluster", {reason});
    return std::nullopt;
  }
  return Candidate{priced(std::move(*move)), false, {}, tr("Model %1").arg(QString::fromStdString(reference))};
}

std::optional<PlanDocument::Candidate> PlanDocument::look_at_cluster(const std::string& reference,
                                                                     Diagnostics& d) const {
  const std::string name = portable(reference, ".");
  auto cluster = library_.cluster(name, ".", std::nullopt, d);
  if (!cluster) return std::nullopt;
  adapt_to_cores(*cluster, cores_);
  std::string reason;
  auto move = with_cluster(run(), std::move(*cluster), name, reason);
  if (!move) {
    d.error("gui.cluster", "no plan near this one runs on the cluster", {reason});
    return std::nullopt;
  }
  auto after = price(std::move(move->run), d);
  if (after == nullptr) return std::nullopt;
  return Candidate{std::move(after), false, {}, tr("Cluster %1").arg(QString::fromStdString(reference))};
}

std::optional<PlanDocument::Candidate> PlanDocument::look_at(const std::filesystem::path& file, Diagnostics& d) {
  const auto plan = [&]() -> std::optional<Candidate> {
    auto opened = read_priced(file, d);
    if (opened == nullptr) return std::nullopt;
    return Candidate{std::move(opened), true, file, {}};
  };
  if (!is_open()) return plan();
  const std::string name = std::filesystem::absolute(file).string();
  const std::string known = "Known: plans, models and clusters (.toml), and config.json of a Hugging Face model.";
  // Traces may be long; their heads are enough to recognise them.
  std::string head(4096, ' ');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  if (file.extension() == ".json" || looks_like_hf_config(head)) {
    if (looks_like_trace(head) || head.find("\"traceEvents\"") != std::string::npos) {
      d.error("gui.file", fmt::format("{} is a trace", file.filename().string()),
              {"Validate (F8), Import sets a step that orrery or PyTorch's profiler recorded beside the prediction; "
               "Compare (F7) takes it as the "
               "second side."});
      return std::nullopt;
    }
    return look_at_model(name, d);
  }
  const auto text = read_text(file, d);
  if (!text) return std::nullopt;
  if (text->find('\0') != std::string::npos) {
    d.error("gui.file", fmt::format("{} is not a text file", file.filename().string()), {known});
    return std::nullopt;
  }
  const auto root = parse_toml(*text, name, d);
  if (!root) return std::nullopt;
  // Each kind of file has a table that no other has; a plan only names what other files have in tables.
  if (root->has("plan") || root->has("mesh") || root->is_text("model") || root->is_text("cluster")) return plan();
  if (root->has("model")) return look_at_model(name, d);
  if (root->has("cluster")) return look_at_cluster(name, d);
  d.error("gui.file", fmt::format("{} cannot be shown here", file.filename().string()), {known});
  return std::nullopt;
}

std::optional<PlanDocument::Candidate> PlanDocument::look_at_example(const std::string& name, Diagnostics& d) {
  auto run = read_priced(library_.plan(name), d);
  if (run == nullptr) return std::nullopt;
  return Candidate{std::move(run), true, {}, {}};
}

void PlanDocument::take(Candidate candidate) {
  if (!candidate.replaces) return push(std::move(candidate.run), candidate.what);
  path_ = std::move(candidate.path);
  saved_ = candidate.run;
  history_.clear();
  set(std::move(candidate.run));
}

bool PlanDocument::restore(const std::filesystem::path& from, const std::filesystem::path& path,
                           const std::filesystem::path& saved, Diagnostics& d) {
  auto run = read_priced(from, d);
  if (run == nullptr) return false;
  take(Candidate{std::move(run), true, path, {}});
  if (saved.empty()) return true;
  // The saved file may be gone or broken meanwhile; then the saved plan is not known.
  Diagnostics ignored;
  saved_ = read_priced(saved, ignored);
  history_.resetClean();
  Q_EMIT changed();
  return true;
}

bool PlanDocument::open(const std::filesystem::path& file, Diagnostics& d) {
  auto run = read_priced(file, d);
  if (run == nullptr) return false;
  take(Candidate{std::move(run), true, file, {}});
  return true;
}

bool PlanDocument::open_example(const std::string& name, Diagnostics& d) {
  auto found = look_at_example(name, d);
  if (!found) return false;
  take(std::move(*found));
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
  saved_ = current_;
  history_.setClean();
  Q_EMIT changed();
  return true;
}

}  // namespace orrery::gui
