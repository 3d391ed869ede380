#pragma once

namespace orrery::python {

/// From now on InputError and CutOff become orrery.Invalid, which holds the diagnostics, and Error orrery.Failed.
void translate_errors();

}  // namespace orrery::python
