#!/bin/sh
# Compiles every header by itself, twice in one unit: it includes what it uses
# and guards itself.  Only syntax, as many at a time as there are cores.
#
#   header_test.sh COMPILER SOURCE_DIRECTORY [INCLUDE_DIRECTORY...]
set -eu
compiler=$1
cd "$2"
shift 2
includes="-I ."
for directory; do includes="$includes -isystem $directory"; done
export compiler includes
# shellcheck disable=SC2016  # expanded by the inner shell
find core sim planner exec cli tests/support -name '*.hpp' | sort |
  xargs -P "$(nproc)" -I {} sh -c '
    printf "#include \"%s\"\n#include \"%s\"\n" {} {} |
      "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror $includes -x c++ - ||
      { echo "{}: does not compile alone" >&2; exit 1; }'
echo "every header compiles alone"
