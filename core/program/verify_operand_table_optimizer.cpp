#include "core/program/moment_scales.hpp"
#include "core/program/verify_operand_table.hpp"

namespace orrery::verifying {

void KernelTable::optimizer() {
  const double n = static_cast<double>(k_.columns);
  const double norms = 2.0 * static_cast<double>(k_.depth);
  switch (k_.kind) {
    case KernelKind::sum_squares: r("gradient", any), a("norm", 1); break;
    case KernelKind::clip_factor:
      r("norm", 1);
      if (k_.options.scaled) a("loss_scale", 2);
      w("factor", 2);
      break;
    case KernelKind::advance_step:
      a("steps", 1);
      if (k_.options.factor) r("factor", 2);
      break;
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      if (k_.kind == KernelKind::adam_update) {
        a("m", n), a("v", n);
        if (k_.options.scaled) a("scales", static_cast<double>(moment_scales(k_.columns)));
      } else if (k_.options.momentum) {
        a("m", n);
      }
      break;
    case KernelKind::lamb_moments:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      r("exact", n), a("m", n), a("v", n), a("norms", norms);
      break;
    case KernelKind::lamb_update:
      r("norms", norms), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      r("m", n), r("v", n);
      break;
    case KernelKind::lars_norms:
      r("gradient", n);
      if (k_.options.factor) r("factor", 2);
      r("exact", n), a("norms", norms);
      break;
    case KernelKind::lars_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      a("m", n);
      if (k_.depth > 0) r("norms", norms);
      break;
    case KernelKind::adafactor_squares:
      r("gradient", n);
      if (k_.options.factor) r("factor", 2);
      a("sums", norms / 2.0);
      break;
    case KernelKind::adafactor_moments:
      r("gradient", n), r("sums", norms / 2.0), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("moments", norms / 2.0), a("norms", k_.batch);
      break;
    case KernelKind::adafactor_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      r("moments", norms / 2.0), r("norms", k_.batch);
      break;
    default: break;
  }
}

}  // namespace orrery::verifying
