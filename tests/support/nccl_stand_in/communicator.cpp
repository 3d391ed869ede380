#include "tests/support/nccl_stand_in/communicator.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace orrery::test::nccl_stand_in {

Shared* map_shared(const std::string& name) {
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

std::string& last_text() {
  thread_local std::string text;
  return text;
}

namespace {
std::atomic<int> rules_broken{0};
}
int broken_rules() { return rules_broken.load(); }

int broken(const std::string& what) {
  last_text() = what;
  rules_broken.fetch_add(1);
  std::fprintf(stderr, "nccl stand-in: %s\n", what.c_str());
  return invalid_usage;
}

Communicator::~Communicator() {
  if (shared != nullptr) munmap(shared, sizeof(Shared));
  unlink(name.c_str());
}

namespace {

std::mutex handles_mutex;
std::set<Pointer>& handles() {
  static auto* all = new std::set<Pointer>;
  return *all;
}

}  // namespace

Pointer find(void* handle) {
  const std::lock_guard lock(handles_mutex);
  for (const Pointer& p : handles()) {
    if (p.get() == handle) return p;
  }
  return nullptr;
}
Pointer make(std::string name, int rank, int ranks) {
  auto made = std::make_shared<Communicator>();
  made->name = std::move(name);
  made->rank = rank;
  made->ranks = ranks;
  made->shared = map_shared(made->name);
  const std::lock_guard lock(handles_mutex);
  handles().insert(made);
  return made;
}

void forget(const Pointer& p) {
  const std::lock_guard lock(handles_mutex);
  handles().erase(p);
}

}  // namespace orrery::test::nccl_stand_in
