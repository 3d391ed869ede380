#include <fmt/format.h>

#include <algorithm>

#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

constexpr std::size_t most_tensors = 40;

std::string gib(std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); }

struct Part {
  const char* name;
  const char* colour;
  std::uint64_t bytes;
};

/// What a stage's process holds, in parts that sum to it.
std::vector<Part> parts_of(const StageMemory& m) {
  std::vector<Part> out = {{"weights", "k1", m.weights},
                           {"gradients", "k2", m.gradients},
                           {"optimizer", "k3", m.optimizer},
                           {"activations", "k5", m.activations},
                           {"workspace", "k4", m.workspace}};
  const std::uint64_t reserved = m.reserved.value_or(m.peak), process = m.process.value_or(reserved);
  out.push_back({"allocator", "k6", reserved > m.peak ? reserved - m.peak : 0});
  out.push_back({"context, communicators", "k7", process > reserved ? process - reserved : 0});
  return out;
}

std::string stage_bar(const StageMemory& m) {
  const std::uint64_t held = m.process.value_or(m.reserved.value_or(m.peak));
  const std::uint64_t room = std::max(m.capacity.value_or(held), held);
  std::string bar;
  std::string words;
  for (const Part& part : parts_of(m)) {
    if (part.bytes == 0 || room == 0) continue;
    bar += fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", part.colour,
                       100.0 * static_cast<double>(part.bytes) / static_cast<double>(room));
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", part.name, gib(part.bytes));
  }
  const bool over = m.capacity && held > *m.capacity;
  return fmt::format(
      "<div class=\"row\"><span>stage {}</span><span class=\"bar{}\" title=\"{}\">{}</span><span>{}{}</span></div>\n",
      m.stage, over ? " over" : "", marked_up(words), bar, gib(held),
      m.capacity ? " of " + gib(*m.capacity) : std::string());
}

std::string tensors_of(const PeakTensors& peak) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(most_tensors, peak.tensors.size()); ++i) {
    const LiveTensor& t = peak.tensors[i];
    rows.push_back({t.name, t.shape, t.dtype, t.role, t.where, fmt::format("{}", t.count), gib(t.bytes)});
  }
  std::string body = html_table({"tensor", "<shape", "<type", "<role", "<of", "count", "bytes"}, rows);
  if (peak.tensors.size() > most_tensors) {
    body += paragraph(fmt::format("{} smaller ones are left out.", peak.tensors.size() - most_tensors), "soft");
  }
  return folded(
      fmt::format("stage {}: {} in {} kinds of tensors at the peak", peak.stage, gib(peak.bytes), peak.tensors.size()),
      body);
}

}  // namespace

PageSection memory_section(const ReportedPlan& p) {
  std::string body = "<div class=\"key\">\n";
  for (const Part& part : parts_of({})) {
    body += fmt::format("<span><i class=\"{}\"></i>{}</span>\n", part.colour, part.name);
  }
  body += "</div>\n";
  for (const StageMemory& stage : p.report.memory_by_stage) body += stage_bar(stage);
  std::vector<std::vector<std::string>> rows;
  for (const StageMemory& m : p.report.memory_by_stage) {
    std::vector<std::string> row = {fmt::format("{}", m.stage)};
    for (const Part& part : parts_of(m)) row.push_back(gib(part.bytes));
    row.push_back(gib(m.process.value_or(m.reserved.value_or(m.peak))));
    rows.push_back(std::move(row));
  }
  std::vector<std::string> headers = {"stage"};
  for (const Part& part : parts_of({})) headers.emplace_back(part.name);
  headers.emplace_back("together");
  body += folded("The same in numbers", html_table(headers, rows));
  // One class of ranks of each stage.
  std::vector<std::uint32_t> seen;
  std::string tensors;
  for (const PeakTensors& peak : p.tensors) {
    if (std::find(seen.begin(), seen.end(), peak.stage) != seen.end()) continue;
    seen.push_back(peak.stage);
    tensors += tensors_of(peak);
  }
  if (!tensors.empty()) body += "<h3>Tensors</h3>\n" + tensors;
  return {"memory", "Memory by stage", body};
}

}  // namespace orrery
