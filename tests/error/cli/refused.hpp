#pragma once

#include <catch2/catch.hpp>

#include <string>

#include "tests/support/program_run.hpp"

namespace orrery::test {

/// Standard error of a run of the program that must end with this status and print nothing else.
inline std::string refused(const std::string& arguments, int status = 2) {
  const Ran ran = run(ORRERY_PROGRAM, arguments);
  CAPTURE(arguments);
  CHECK(ran.status == status);
  CHECK(ran.out == "");
  return ran.err;
}

}  // namespace orrery::test
