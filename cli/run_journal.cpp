#include "cli/run_journal.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/diagnostics.hpp"

namespace orrery {

RunJournal::RunJournal() : file_(memfd_create("orrery-journal", MFD_CLOEXEC)) {
  // Appending holds for both processes, wherever the other has read.
  if (file_ < 0 || fcntl(file_, F_SETFL, O_APPEND) != 0) {
    throw Error(std::string("cannot make memory that processes share: ") + std::strerror(errno));
  }
}

RunJournal::~RunJournal() {
  if (file_ >= 0) close(file_);
}

void RunJournal::note(const JournalEntry& entry) {
  if (write(file_, &entry, sizeof entry) != sizeof entry) {
    throw Error(std::string("cannot write to memory that processes share: ") + std::strerror(errno));
  }
}

std::vector<JournalEntry> RunJournal::read() const {
  std::vector<JournalEntry> entries;
  JournalEntry entry;
  for (off_t at = 0; pread(file_, &entry, sizeof entry, at) == sizeof entry; at += off_t{sizeof entry}) {
    entries.push_back(entry);
  }
  return entries;
}

void RunJournal::clear() {
  if (ftruncate(file_, 0) != 0) {
    throw Error(std::string("cannot clear memory that processes share: ") + std::strerror(errno));
  }
}

}  // namespace orrery
