#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// How far a rank's process has come.
enum class RankState : std::uint8_t {
  starting,
  running,
  finished,  ///< did all it was asked to
  failed,    ///< an op, or work between steps, failed; the message says what
  gave_up,   ///< waited longer than the watchdog allows; the message says for whom
  ended      ///< stopped because another rank did
};

/// An op that a rank has carried out, in nanoseconds of the clock that ranks share.
struct RecordedOp {
  std::uint64_t step = 0;  ///< 0: setup
  OpId op{};
  std::int64_t start = 0, end = 0;
  friend bool operator==(const RecordedOp&, const RecordedOp&) = default;
};

/// An op that a thread of a rank is in.
struct CurrentOp {
  std::uint64_t step = 0;
  OpId op{};
};

/// What the file of a rank says.
struct Recording {
  Rank rank{};
  std::uint32_t ranks = 0;
  std::int32_t process = 0;
  RankState state = RankState::starting;
  std::int64_t last_beat = 0;         ///< nanoseconds of this host's steady clock
  std::optional<Rank> waits_for;      ///< the partner without whom it cannot go on
  std::vector<CurrentOp> current;     ///< one for every thread that is in an op
  std::vector<RecordedOp> completed;  /// the last ones, oldest first
  std::string message;                ///< of a failure
};

/// The last operations of one rank, in a mapped file. It survives when the process is killed, and others may read it
/// while the rank runs.
///
/// The rank's threads write ops, each in a slot of its own; a read never waits for them and leaves out what was being
/// overwritten.
class Recorder {
 public:
  static constexpr std::size_t kept = 512;           ///< ops that are kept
  static constexpr std::size_t longest_text = 2000;  ///< bytes of a message
  /// Makes the file anew.  Throws Error where that cannot be done.
  Recorder(const std::filesystem::path&, Rank, std::uint32_t ranks);
  /// Opens an existing file. Throws Error where it is missing or something else.
  explicit Recorder(const std::filesystem::path&);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The file of a rank in a folder.
  [[nodiscard]] static std::filesystem::path file(const std::filesystem::path& folder, Rank);

  void set_process(std::int32_t);
  void beat(std::int64_t now);
  void set_state(RankState, const std::string& message = "");
  void set_waits_for(std::optional<Rank>);
  /// A thread (0: the rank's own, then one for each lane) begins and ends an op.
  void begin(std::size_t thread, std::uint64_t step, OpId);
  void end(std::size_t thread, const RecordedOp&);

  [[nodiscard]] Recording read() const;
  [[nodiscard]] std::int64_t last_beat() const;
  [[nodiscard]] RankState state() const;
  /// When the last op ended, in nanoseconds of the clock that ranks share; 0 before the first.
  [[nodiscard]] std::int64_t last_end() const;

 private:
  struct Page;
  Page* page_ = nullptr;
};

}  // namespace orrery
