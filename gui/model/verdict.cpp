#include "gui/model/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"

namespace orrery::gui {
namespace {

std::string bytes(std::uint64_t n) { return short_text(Bytes::of(static_cast<double>(n))); }

std::uint64_t over(const MemoryUse& use) { return use.needs > use.has ? use.needs - use.has : 0; }

std::string told(const MemoryUse& use, const Report& r) {
  switch (use.where) {
    case MemoryUse::Where::device: {
      const bool process = r.peak_memory_process_bytes.has_value();
      return fmt::format("stage {}: its {} {} of the device's {}", use.stage.value_or(0),
                         process ? "process holds" : "tensors take", bytes(use.needs), bytes(use.has));
    }
    case MemoryUse::Where::host:
      return fmt::format("host memory of a node: {} of {}", bytes(use.needs), bytes(use.has));
    case MemoryUse::Where::disk: return fmt::format("disk of a node: {} of {}", bytes(use.needs), bytes(use.has));
  }
  return {};
}

}  // namespace

std::uint64_t process_of(const Report& r, const StageMemory& m) {
  if (m.process) return *m.process;
  if (!m.reserved || !r.peak_memory_process_bytes) return m.peak;
  const std::uint64_t reserved = r.peak_memory_reserved_bytes.value_or(0);
  const std::uint64_t process = *r.peak_memory_process_bytes;
  // Context and communicators are the same in every process.
  return std::max(m.peak, *m.reserved) + (process - std::min(process, reserved));
}

FitVerdict fit_verdict(const Report& r) {
  FitVerdict out;
  out.fits = r.fits;
  out.whole = r.peak_memory_reserved_bytes.has_value();
  if (r.memory_capacity_bytes) {
    MemoryUse device{MemoryUse::Where::device, 0, *r.memory_capacity_bytes};
    const auto left = [](std::uint64_t needs, std::uint64_t has) {
      return static_cast<std::int64_t>(has) - static_cast<std::int64_t>(needs);
    };
    for (const StageMemory& m : r.memory_by_stage) {
      const std::uint64_t held = process_of(r, m), has = m.capacity.value_or(*r.memory_capacity_bytes);
      if (!device.stage || left(held, has) < left(device.needs, device.has)) {
        device = {MemoryUse::Where::device, held, has, m.stage};
      }
    }
    out.uses.push_back(device);
  }
  const auto add = [&](MemoryUse::Where where, const auto& needs, const auto& has) {
    if (needs && has) out.uses.push_back({where, *needs, *has});
  };
  add(MemoryUse::Where::host, r.peak_host_memory_bytes, r.host_memory_capacity_bytes);
  add(MemoryUse::Where::disk, r.peak_disk_bytes, r.disk_capacity_bytes);

  std::vector<std::string> details;
  const auto most = std::max_element(out.uses.begin(), out.uses.end(),
                                     [](const MemoryUse& a, const MemoryUse& b) { return over(a) < over(b); });
  for (const MemoryUse& use : out.uses) {
    if (out.fits || over(use) > 0) details.push_back(told(use, r));
  }
  if (out.uses.empty()) {
    out.text = out.fits ? "fits, as far as is known" : "does not fit";
    details.emplace_back("the memory of the device is not known");
  } else if (out.fits) {
    const MemoryUse& device = out.uses.front();
    out.text = device.has > device.needs ? fmt::format("fits, {} to spare", bytes(device.has - device.needs))
                                         : "fits, with nothing to spare";
  } else {
    out.text = over(*most) > 0 ? fmt::format("does not fit by {}", bytes(over(*most))) : "does not fit";
    if (details.empty()) details.push_back(told(out.uses.front(), r));
  }
  for (const std::string& d : details) out.detail += (out.detail.empty() ? "" : "; ") + d;
  return out;
}

}  // namespace orrery::gui
