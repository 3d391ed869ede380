#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "core/spec/library.hpp"
#include "framework/launch/launch_value.hpp"

namespace orrery {

/// What a person says beside the file.
struct LaunchInputs {
  std::optional<std::string> model;    ///< reference, where the file does not describe or name one, or in its place
  std::optional<std::string> cluster;  ///< reference
  std::optional<std::uint32_t> gpus;
  /// Values that the file leaves open: variables of a shell script, and keys of plans by their last word or an alias
  /// ("sequence", "batch", "mbs").
  std::map<std::string, std::string, std::less<>> set;
};

/// What became of one key of a launch file.
struct LaunchNote {
  enum class Kind : std::uint8_t {
    taken,            ///< it is in the plan
    without_effect,   ///< on step time and memory
    not_expressible,  ///< a plan cannot say it; the nearest was taken
    assumed,          ///< the file does not say it
  };
  Kind kind = Kind::taken;
  Position position;  ///< of the key's value; line 0: of no key
  std::string key;    ///< as the file has it; of what is assumed, the plan's
  std::string value;
  std::string says;  ///< "mesh.tensor = 8"; why it has no effect; what is missing, and the nearest
};

/// A launch file as a plan.
struct LaunchedRun {
  std::string framework;          ///< name of its room: "megatron-core"
  std::string format;             ///< "a torchtitan configuration"
  PlannedRun run;                 ///< it passes check(); its model has the file's own shape where the file gives one
  bool own_model = false;         ///< the model is described in the file, so that it has no reference
  std::vector<LaunchNote> notes;  ///< in the order of the file; assumptions last

  [[nodiscard]] bool has(LaunchNote::Kind) const;
};

/// One launch file on its way to a plan. A room asks for values, and says of every key what becomes of it; keys of
/// which it says nothing are unknown, and errors.
///
/// Values of plan keys are TOML: "8", "\"interleaved\"", "true", "[4, 4]". A key that is set twice has the later value.
class LaunchReading {
 public:
  LaunchReading(const LaunchFile& file, const LaunchInputs& options, const Library& library, Diagnostics&);

  [[nodiscard]] const LaunchFile& file() const { return file_; }
  /// Puts other values in place of the file's, as where it names another file whose values come before its own. Values
  /// of other files have no position. To be called before anything is said of a key.
  void put_values(std::vector<LaunchValue> values) { file_.values = std::move(values); }
  [[nodiscard]] const LaunchInputs& options() const { return options_; }
  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] Diagnostics& diagnostics() { return diagnostics_; }

  // Values. Each is empty where the key is absent or null, or where its value is of another type, out of range or
  // depends on a variable that the file does not set, which is an error then (launch.value). Asking says nothing about
  // a key that the file has; one that it lacks counts as known, as what a wrong key may be meant for.
  [[nodiscard]] const LaunchValue* value(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> whole(std::string_view key, std::uint64_t least = 0,
                                                   std::uint64_t most = std::uint64_t{1} << 40);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key);  ///< -1 means "the rest" in some files
  [[nodiscard]] std::optional<double> real(std::string_view key);
  [[nodiscard]] std::optional<bool> toggle(std::string_view key);
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// One of the words, in any case; another one is an error that lists them.
  [[nodiscard]] std::optional<std::string> word(std::string_view key, std::initializer_list<std::string_view> words);

  // What becomes of a key.
  /// Sets a plan key; the key of the file is taken.
  void set(std::string_view from, std::string_view plan_key, std::string_view toml);
  /// The key is taken for something that no plan key states alone ("the model's width").
  void take(std::string_view from, std::string says);
  void without_effect(std::string_view from, std::string why = {});
  /// A plan cannot say it; `nearest` is what the plan has in its place.
  void refuse(std::string_view from, std::string what, std::string nearest);
  /// Sets a plan key of which the file says nothing; left out where it was set.
  void assume(std::string_view plan_key, std::string_view toml, std::string why);
  /// Says of a property of the model that the file leaves open what was taken for it.
  void assume_of_model(std::string_view property, std::string value, std::string why);
  /// A mistake at a key (code launch.value), which then counts as spoken of.
  void error(std::string_view from, std::string message, std::vector<std::string> details = {});
  [[nodiscard]] bool is_set(std::string_view plan_key) const;
  /// The whole number that a plan key has so far, set or assumed; `otherwise` where it has none.
  [[nodiscard]] std::uint64_t plan_number(std::string_view plan_key, std::uint64_t otherwise) const;
  /// The value that --set gives for a plan key ("workload.sequence") under any of its names; empty where none does.
  [[nodiscard]] std::optional<std::uint64_t> given(std::string_view plan_key);
  /// Says of all keys that nothing was said of yet and that are in the list: without effect. A word that ends in "*"
  /// is a beginning.
  void without_effect(std::initializer_list<std::string_view> keys, const char* why);

  /// Takes over what was read of another file that a key of this one names: its settings where this file has none, and
  /// its notes, whose keys then begin with the other file's name. Unknown keys of the other file are errors in it. It
  /// may be this file with keys under other names; then what was taken is not said again.
  void include(std::string_view from, LaunchReading& other);

  // The model. Options come first; then what the room says.
  /// The file describes its model.
  void model(ModelSpec spec);
  /// The file names its model, as a hub, a path or a preset does: "meta-llama/Meta-Llama-3-8B".
  void model_named(std::string_view from, const std::string& name);
  /// The model so far; null where there is none. Rooms use it for what depends on layers or heads.
  [[nodiscard]] const ModelSpec* known_model() const { return model_ ? &*model_ : nullptr; }

  /// Ends the reading: unknown keys are reported, the plan is built and checked. Empty after any mistake.
  [[nodiscard]] std::optional<LaunchedRun> finish(std::string framework, std::string format);

 private:
  /// The value of a key; an error, and null, where it depends on what the file does not say.
  [[nodiscard]] const LaunchValue* known(std::string_view key);
  struct Setting {
    std::string toml;
    Position position;  ///< in the launch file; line 0 for assumptions
  };
  void note(LaunchNote::Kind, std::string_view from, std::string says);
  /// The plan file that the settings make, and the key that each of its lines sets.
  struct PlanText {
    std::string text;
    std::vector<std::string> keys;
  };
  [[nodiscard]] PlanText plan_text() const;
  /// A mistake in the plan's text at the key of the launch file that set the value.
  [[nodiscard]] Diagnostic at_its_key(const Diagnostic&, const PlanText&) const;
  void report_unknown();

  LaunchFile file_;
  const LaunchInputs& options_;
  const Library& library_;
  Diagnostics& diagnostics_;
  std::size_t mistakes_before_;
  std::map<std::string, Setting, std::less<>> settings_;  ///< by plan key
  std::vector<std::string> spoken_of_;                    ///< keys that the reader knows, in any order
  std::vector<LaunchNote> notes_;
  std::optional<ModelSpec> model_;
  std::string model_reference_;
  bool own_model_ = false;
  std::vector<std::string> used_set_;
};

}  // namespace orrery
