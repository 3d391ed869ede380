#!/bin/sh
# The plans that tools/gpu-check trains are valid and priced, on every machine.
#
#   check_plans.sh ORRERY SOURCE_DIRECTORY
set -eu
orrery=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source"/tests/gpu/*.toml "$source/tests/gpu/model" "$work/"
sed 's/^device = .*/device = "h200"/' "$source/models/cluster/dgx-h100.toml" >"$work/cluster.toml"
for plan in "$work"/[gls]*.toml; do
  "$orrery" estimate "$plan" >/dev/null
done
