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
# At its roofline each kind of kernel takes less than by the device's constants, and none takes nothing.
sed -i 's/^device = .*/device = "h200"/' "$work/roofline.toml"
"$orrery" simulate "$work/llama-1.1b.toml" --calibration "$work/roofline.toml" --lanes concurrent -o "$work/best.json" >/dev/null
"$orrery" simulate "$work/llama-1.1b.toml" --lanes concurrent -o "$work/usual.json" >/dev/null
"$orrery" compare "$work/best.json" "$work/usual.json" --json >"$work/compared.json" || [ $? -eq 1 ]
tr -d ' \n' <"$work/compared.json" | grep -o '"predicted_s":[^,]*,"measured_s":[^,]*' | tr ':,' '  ' | awk '
  { ++n; if (!($2 < $4) && $4 > 0 || ($4 > 0 && $2 <= 0)) { print "not below: " $0; bad = 1 } }
  END { if (n < 10) { print "only " n + 0 " times"; bad = 1 } exit bad }'
