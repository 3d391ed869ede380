#include "edit/measure.hpp"

#include <fmt/format.h>

#include <array>

#include "core/base/translate.hpp"

namespace orrery {
namespace {

struct MeasureInfo {
  std::string_view name;
  const char* label;
  const char* unit;
};
constexpr std::array<MeasureInfo, 13> infos{{
    {"step-time", QT_TRANSLATE_NOOP("measure", "step time"), "ms"},
    {"tokens-per-s", QT_TRANSLATE_NOOP("measure", "throughput"), "k tokens/s"},
    {"mfu", QT_TRANSLATE_NOOP("measure", "MFU"), "%"},
    {"bubble", QT_TRANSLATE_NOOP("measure", "bubble"), "%"},
    {"exposed", QT_TRANSLATE_NOOP("measure", "exposed communication"), "ms"},
    {"peak-memory", QT_TRANSLATE_NOOP("measure", "peak memory"), "GiB"},
    {"weights", QT_TRANSLATE_NOOP("measure", "memory of weights"), "GiB"},
    {"gradients", QT_TRANSLATE_NOOP("measure", "memory of gradients"), "GiB"},
    {"optimizer", QT_TRANSLATE_NOOP("measure", "memory of optimizer states"), "GiB"},
    {"activations", QT_TRANSLATE_NOOP("measure", "memory of activations"), "GiB"},
    {"sent-per-rank", QT_TRANSLATE_NOOP("measure", "bytes that a rank sends in a step"), "MiB"},
    {"between-nodes", QT_TRANSLATE_NOOP("measure", "bytes that leave their node in a step"), "GiB"},
    {"collectives", QT_TRANSLATE_NOOP("measure", "collectives of a rank in a step"), ""},
}};
const MeasureInfo& info(Measure m) { return infos[static_cast<std::size_t>(m)]; }

}  // namespace

const std::vector<std::string_view>& measure_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const MeasureInfo& i : infos) out.push_back(i.name);
    return out;
  }();
  return names;
}

const char* label_of(Measure m) { return info(m).label; }
const char* unit_of(Measure m) { return info(m).unit; }

std::string text_of(Measure m, double value) {
  const char* unit = unit_of(m);
  return fmt::format("{:.4g}{}{}", value, *unit == '\0' ? "" : " ", unit);
}

}  // namespace orrery
