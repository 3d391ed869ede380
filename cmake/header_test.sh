#!/bin/sh
# Every header includes what it uses, guards itself, and names its types as no other does.  A header that its own
# source includes first has been compiled alone by the build; the others are
# compiled here, syntax only, as many at a time as there are cores.
#
#   header_test.sh COMPILER SOURCE_DIRECTORY [INCLUDE_DIRECTORY...]
set -eu
compiler=$1
cd "$2"
shift 2
includes='-I . -DORRERY_SOURCE_DIR="."'   # the second is what every test is given
for directory; do includes="$includes -isystem $directory"; done
export compiler includes
# Those of exec/kernels/cuda include the CUDA Toolkit's, which may not be there.
headers=$(find core sim planner forecast jobs serve validate sweep report exec edit cli gui tests/support -name '*.hpp' -not -path 'exec/kernels/cuda/*' | sort)
# shellcheck disable=SC2086  # the list is meant to be split
unguarded=$(grep -L '^#pragma once$' $headers || true)
if [ -n "$unguarded" ]; then
  echo "no #pragma once in: $unguarded" >&2
  exit 1
fi
# Two types of one name are one type to the linker, which takes either's functions for both.
twice=$(for header in $headers; do
  namespace=$(grep -m1 -oE '^namespace [a-z_:]+' "$header" || true)
  { grep -oE '^(struct|class|enum class) [A-Za-z0-9_]+( final)?( : [^{]*)? [{]' "$header" || true; } |
    sed -E "s/^(struct|enum class|class) ([A-Za-z0-9_]+).*/$namespace \2/"
done | sort | uniq -d)
if [ -n "$twice" ]; then
  echo "defined in more than one header: $twice" >&2
  exit 1
fi
for header in $headers; do
  source=${header%.hpp}.cpp
  if ! [ -f "$source" ] || [ "$(grep -m1 '^#include' "$source")" != "#include \"$header\"" ]; then
    echo "$header"
  fi
done |
  # shellcheck disable=SC2016  # expanded by the inner shell
  xargs -P "$(nproc)" -I {} sh -c '
    printf "#include \"%s\"\n" {} |
      "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror $includes -x c++ - ||
      { echo "{}: does not compile alone" >&2; exit 1; }'
echo "every header compiles alone"
