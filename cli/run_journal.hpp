#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace orrery {

/// What rank 0's process notes while it trains.
struct JournalEntry {
  enum class Kind : std::uint32_t {
    began,  ///< all ranks have their state, and the first step begins
    step,
    saved
  };
  Kind kind = Kind::began;
  std::uint32_t has_loss = 0;
  std::uint64_t step = 0;  ///< the last one that ended
  std::int64_t at = 0;     ///< nanoseconds of this host's steady clock: its end
  std::int64_t took = 0;   ///< nanoseconds, of a step or a save
  double loss = 0.0;
};

/// Notes of one process for another. They are in memory that both share, so they stay when the writer is killed.
/// Processes that are to share it are made after it.
class RunJournal {
 public:
  /// Throws Error where the system gives no such memory.
  RunJournal();
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  void note(const JournalEntry&);
  /// All entries, the oldest first.
  [[nodiscard]] std::vector<JournalEntry> read() const;
  /// Removes all entries.
  void clear();

 private:
  int file_;
};

}  // namespace orrery
