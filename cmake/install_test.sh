#!/bin/sh
# Installs the libraries into a fresh folder, builds examples/price_a_plan with what is there and nothing else of this
# tree, and holds its answer against the program's.
#
#   install_test.sh CMAKE BUILD_DIRECTORY SOURCE_DIRECTORY ORRERY COMPILER
set -eu
cmake=$1 build=$2 source=$3 orrery=$4 compiler=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/prefix" --component library >"$folder/log"
# The example is copied, so that no header is found beside it.
cp -r "$source/examples/price_a_plan" "$folder/example"
"$cmake" -S "$folder/example" -B "$folder/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_BUILD_TYPE=Debug >>"$folder/log"
"$cmake" --build "$folder/build" >>"$folder/log"
XDG_DATA_HOME=$folder
export XDG_DATA_HOME
for plan in demo-2x2x2 llama-3-70b-8-dgx-h100; do
  answer=$("$folder/build/price_a_plan" "$source/models" "$source/models/plan/$plan.toml")
  wanted=$("$orrery" estimate "$plan" --json | sed -n 's/^ *"step_time_s": \([0-9.e-]*\),$/\1/p')
  # Six digits are printed.
  echo "$plan: $answer, and orrery estimate gives $wanted s"
  awk -v a="${answer% s}" -v b="$wanted" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(b > 0 && d < 1e-5 * b) }'
done
