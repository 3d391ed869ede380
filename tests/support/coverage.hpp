#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <map>
#include <string>

namespace orrery::test {

/// Whether the tests labelled long run: then all cases are tested, otherwise samples of them.
inline bool long_tests() { return std::getenv("ORRERY_LONG_TESTS") != nullptr; }

/// Chooses among random cases those that show something new.  A case has kinds; it is taken while one of them was seen
/// fewer than `least` times.  Where the long tests run, every case is taken.
class Coverage {
 public:
  using Kinds = std::map<std::string, bool>;  ///< whether the case is of the kind

  explicit Coverage(int least) : least_(least) {}

  /// Whether the case is taken; it then counts.
  [[nodiscard]] bool takes(const Kinds& kinds) {
    bool taken = long_tests();
    for (const auto& [kind, present] : kinds) taken = (present && seen_[kind] < least_) || taken;
    for (const auto& [kind, present] : kinds) seen_[kind] += taken && present ? 1 : 0;
    return taken;
  }

  /// Every kind was seen often enough, except for `impossible` kinds.
  void check(int impossible = 0) const {
    int never = 0;
    for (const auto& [kind, count] : seen_) {
      never += count == 0 ? 1 : 0;
      UNSCOPED_INFO(kind << ": " << count << " of " << least_);
      CHECK((count >= least_ || count == 0));
    }
    std::string not_seen;
    for (const auto& [kind, count] : seen_) not_seen += count == 0 ? kind + "; " : "";
    CAPTURE(not_seen);
    CHECK(never == impossible);
  }

 private:
  int least_;
  std::map<std::string, int> seen_;
};

}  // namespace orrery::test
