#pragma once

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Says of the keys of transformers' TrainingArguments that change no step's time or memory: without effect. Those that
/// do are read elsewhere in this folder, or by the room; call this last.
void pass_over_trainer_keys(LaunchReading&);

/// A diagnosis that ends the reading: the file asks for something of which plans know nothing. All other keys count as
/// spoken of, so that it stands alone.
void end_reading(LaunchReading&, std::string_view key, std::string message, std::vector<std::string> details = {});

}  // namespace orrery
