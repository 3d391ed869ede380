#include "gui/model/basis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery::gui {
namespace {

using Of = BasisDifference::Of;

bool forbids_percentages(const BasisDifference& d) { return d.of != Of::software && d.of != Of::memory_margin; }

/// Compares two specs without regard to where they were read from.
template <class Spec>
bool same(Spec a, Spec b) {
  a.origin = {};
  b.origin = {};
  return a == b;
}

const char* name_of(Of of) {
  switch (of) {
    case Of::model: return "model";
    case Of::cluster: return "cluster";
    case Of::workload: return "workload";
    case Of::software: return "software";
    case Of::calibration: return "calibration";
    case Of::memory_margin: return "memory margin";
  }
  return "";
}

}  // namespace

std::vector<BasisDifference> basis_differences(const PlannedRun& a, const PlannedRun& b) {
  std::vector<BasisDifference> out;
  const auto differ = [&](Of of, const char* field, const std::string& left, const std::string& right) {
    if (left != right) out.push_back({of, field, left, right});
  };
  const auto cluster = [](const PlannedRun& r) {
    return fmt::format("{} of {} {}", r.cluster->name, r.cluster->devices(), r.cluster->device.name);
  };
  // One name may stand for two things, for example when a file was changed.
  const auto named_alike = [&](Of of, const char* field, bool alike) {
    const bool told = std::any_of(out.begin(), out.end(), [&](const BasisDifference& d) { return d.of == of; });
    if (!alike && !told) out.push_back({of, field, "as it was read before", "as it is now"});
  };
  differ(Of::model, "model", a.model.name, b.model.name);
  named_alike(Of::model, "model", same(a.model, b.model));
  differ(Of::cluster, "cluster", cluster(a), cluster(b));
  named_alike(Of::cluster, "cluster", same(*a.cluster, *b.cluster));
  const Workload &left = a.workload, &right = b.workload;
  differ(Of::workload, "workload.batch", fmt::to_string(left.global_batch), fmt::to_string(right.global_batch));
  differ(Of::workload, "workload.sequence", fmt::to_string(left.sequence_length),
         fmt::to_string(right.sequence_length));
  differ(Of::workload, "workload.precision", std::string(orrery::name_of(left.precision)),
         std::string(orrery::name_of(right.precision)));
  differ(Of::workload, "workload.optimizer", std::string(orrery::name_of(left.optimizer.kind)),
         std::string(orrery::name_of(right.optimizer.kind)));
  named_alike(Of::workload, "workload", same(left, right));
  return out;
}

std::vector<BasisDifference> basis_differences(const PricedRun& a, const PricedRun& b) {
  std::vector<BasisDifference> out = basis_differences(a.run, b.run);
  if (a.prices != b.prices) {
    if (a.prices->software.name != b.prices->software.name) {
      out.push_back({Of::software, "software", a.prices->software.name, b.prices->software.name});
    }
    Calibration left = a.prices->calibration, right = b.prices->calibration;
    for (Calibration* c : {&left, &right}) {
      c->software = {};
      for (Calibration& other : c->others) other.software = {};
    }
    // Another cluster has another calibration, but that difference is reported already.
    if (left.device == right.device && left != right) {
      const auto told = [](const CalibrationChoice& c) {
        return c.calibration.date.empty() ? c.origin : fmt::format("{} of {}", c.origin, c.calibration.date);
      };
      out.push_back({Of::calibration, "calibration", told(*a.prices), told(*b.prices)});
    }
  }
  if (a.settings.memory_margin != b.settings.memory_margin) {
    out.push_back({Of::memory_margin, "memory margin", margin_text(a.settings.memory_margin),
                   margin_text(b.settings.memory_margin)});
  }
  return out;
}

bool is_comparable(const std::vector<BasisDifference>& differences) {
  return std::none_of(differences.begin(), differences.end(), forbids_percentages);
}

std::string text_of(const std::vector<BasisDifference>& differences) {
  std::string out;
  for (const BasisDifference& d : differences) {
    out += fmt::format("{}{} {}, not {}", out.empty() ? "" : "; ", d.field, d.b, d.a);
  }
  return out;
}

std::string short_text_of(const std::vector<BasisDifference>& differences) {
  auto at = std::find_if(differences.begin(), differences.end(), forbids_percentages);
  if (at == differences.end()) at = differences.begin();
  return at == differences.end() ? "" : fmt::format("another {}", name_of(at->of));
}

}  // namespace orrery::gui
