#include "exec/run/tier_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

TierFile::~TierFile() {
  for (const Part& part : parts_) ::munmap(part.data, part.bytes);
  if (file_ >= 0) ::close(file_);
}

void TierFile::open() {
  std::string name = (folder_ / "orrery-disk-XXXXXX").string();
  file_ = ::mkstemp(name.data());
  if (file_ < 0) throw Error("cannot make a file for the disk tier in " + folder_.string() + ": " + reason(errno));
  ::unlink(name.c_str());
}

std::byte* TierFile::take(std::uint64_t bytes) {
  if (file_ < 0) open();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t size = (bytes + page - 1) / page * page;
  const int full = ::posix_fallocate(file_, static_cast<off_t>(end_), static_cast<off_t>(size));
  if (full != 0) {
    throw Error("cannot keep " + std::to_string(bytes) + " more bytes of the disk tier in " + folder_.string() +
                ", after " + std::to_string(end_) + ": " + reason(full));
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(end_));
  if (data == MAP_FAILED) throw Error("cannot map the disk tier's file in " + folder_.string() + ": " + reason(errno));
  parts_.push_back({data, size});
  end_ += size;
  return static_cast<std::byte*>(data);
}

}  // namespace orrery
