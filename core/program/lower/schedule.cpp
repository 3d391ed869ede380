#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

Schedule schedule_of(ScheduleName name) {
  switch (name) {
    case ScheduleName::gpipe: return schedule_gpipe;
    case ScheduleName::one_f_one_b: return schedule_1f1b;
  }
  return nullptr;
}

}  // namespace orrery::lowering
