#!/bin/sh
# Compiles every header by itself, twice in one unit: it includes what it uses
# and guards itself.  Only syntax, two at a time.
#
#   header_test.sh COMPILER SOURCE_DIRECTORY
set -eu
compiler=$1
cd "$2"
export compiler
find core sim planner exec cli tests/support -name '*.hpp' | sort |
  xargs -P "$(nproc)" -I {} sh -c '
    printf "#include \"%s\"\n#include \"%s\"\n" {} {} |
      "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -I . -x c++ - ||
      { echo "{}: does not compile alone" >&2; exit 1; }'
echo "every header compiles alone"
