#include "gui/model/session.hpp"

#include <QCoreApplication>
#include <QFile>
#include <QSaveFile>
#include <QSettings>
#include <string>

#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"

namespace orrery::gui {
namespace {

constexpr const char* plan_name = "plan.toml";
constexpr const char* saved_name = "saved.toml";
constexpr const char* baseline_name = "baseline.toml";
constexpr const char* about_name = "session.ini";

bool write_whole(const QString& name, const std::string& text, QString& why) {
  QSaveFile out(name);
  const auto size = static_cast<qint64>(text.size());
  if (out.open(QIODevice::WriteOnly) && out.write(text.data(), size) == size && out.commit()) return true;
  why = out.errorString();
  return false;
}

std::filesystem::path path_of(const QString& text) { return text.toStdString(); }

QString key_of(const char* what, const char* key) {
  return QStringLiteral("%1-%2").arg(QLatin1String(what), QLatin1String(key));
}

void write_settings(QSettings& about, const char* what, const RunSettings& settings) {
  about.setValue(key_of(what, "software"), QString::fromStdString(settings.software));
  about.setValue(key_of(what, "memory-margin"), QString::fromStdString(margin_text(settings.memory_margin)));
}

RunSettings read_settings(const QSettings& about, const char* what) {
  RunSettings out;
  out.software = about.value(key_of(what, "software"), QStringLiteral("auto")).toString().toStdString();
  Bytes margin;
  std::string problem;
  const std::string text = about.value(key_of(what, "memory-margin")).toString().toStdString();
  if (parse_quantity(text, margin, problem) && margin >= Bytes()) out.memory_margin = margin;
  return out;
}

}  // namespace

Session::Session(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  lock_ = std::make_unique<QLockFile>(file("lock"));
  // A program that was ended leaves its lock. What counts is whether it still runs, not how old the lock is.
  lock_->setStaleLockTime(0);
  mine_ = lock_->tryLock(0);
}

QString Session::file(const char* name) const { return QString::fromStdString((folder_ / name).string()); }

bool Session::keep(const PlanDocument& document, const PricedRun* baseline, const Place& place, QString& why) {
  if (!mine_ || !document.is_open()) return true;
  if (!write_whole(file(plan_name), write_plan(document.run()), why)) return false;
  const auto keep_run = [&](const char* name, const PricedRun* run) {
    if (run != nullptr) return write_whole(file(name), write_plan(run->run), why);
    QFile::remove(file(name));
    return true;
  };
  const bool saved = !document.has_changes();
  if (!keep_run(baseline_name, baseline) || !keep_run(saved_name, saved ? nullptr : document.saved().get())) {
    return false;
  }
  QSettings about(file(about_name), QSettings::IniFormat);
  about.setValue(QStringLiteral("path"), QString::fromStdString(document.path().string()));
  about.setValue(QStringLiteral("saved"), saved);
  write_settings(about, "plan", document.settings());
  if (baseline != nullptr) write_settings(about, "baseline", baseline->settings);
  about.setValue(QStringLiteral("ended"), false);
  about.setValue(QStringLiteral("view"), place.view);
  about.setValue(QStringLiteral("geometry"), place.geometry);
  about.setValue(QStringLiteral("panels"), place.panels);
  about.setValue(QStringLiteral("lessons"), place.lessons);
  about.sync();
  if (about.status() == QSettings::NoError) return true;
  why = QCoreApplication::translate("session", "%1 cannot be written").arg(file(about_name));
  return false;
}

void Session::end() {
  if (!mine_) return;
  QSettings about(file(about_name), QSettings::IniFormat);
  about.setValue(QStringLiteral("ended"), true);
}

void Session::forget() {
  if (!mine_) return;
  for (const char* name : {plan_name, saved_name, baseline_name, about_name}) QFile::remove(file(name));
}

std::optional<Session::Kept> Session::kept() const {
  if (!QFile::exists(file(plan_name)) || !QFile::exists(file(about_name))) return std::nullopt;
  const QSettings about(file(about_name), QSettings::IniFormat);
  Kept out;
  out.plan = folder_ / plan_name;
  out.path = path_of(about.value(QStringLiteral("path")).toString());
  out.saved = about.value(QStringLiteral("saved")).toBool();
  if (!out.saved) out.as_saved = folder_ / saved_name;
  out.settings = read_settings(about, "plan");
  out.baseline_settings = read_settings(about, "baseline");
  out.ended = about.value(QStringLiteral("ended")).toBool();
  if (QFile::exists(file(baseline_name))) out.baseline = folder_ / baseline_name;
  out.place = {about.value(QStringLiteral("view")).toString(), about.value(QStringLiteral("geometry")).toByteArray(),
               about.value(QStringLiteral("panels")).toByteArray(), about.value(QStringLiteral("lessons")).toBool()};
  return out;
}

std::optional<std::filesystem::path> Session::set_aside(const Kept& kept) const {
  if (!mine_ || kept.saved) return std::nullopt;
  for (int i = 1; i < 1000; ++i) {
    const std::filesystem::path to = folder_ / ("unsaved-" + std::to_string(i) + ".toml");
    std::error_code failure;
    if (std::filesystem::exists(to, failure)) continue;
    std::filesystem::copy_file(kept.plan, to, failure);
    return failure ? std::nullopt : std::optional(to);
  }
  return std::nullopt;
}

}  // namespace orrery::gui
