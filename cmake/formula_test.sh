#!/bin/sh
# Every function whose comment cites a source is named on a page of docs/formulas.
#
#   formula_test.sh SOURCE_DIRECTORY
set -eu
cd "$1"
missing=0
for cited in $(find core sim planner forecast jobs serve validate sweep report edit -name '*.hpp' -exec awk '
    /^ *\/\/\/ *Source:/ { cited = 1; next }
    cited && /^ *\/\/\// { next }
    cited { cited = 0; if (match($0, /[A-Za-z_0-9]+\(/)) print FILENAME ":" substr($0, RSTART, RLENGTH - 1) }' {} + | sort); do
  if ! grep -q "\`\(.*::\)\?${cited##*:}\`" docs/formulas/*.md; then
    echo "$cited cites a source and is on no page of docs/formulas" >&2
    missing=1
  fi
done
[ "$missing" -eq 0 ] && echo "every cited formula stands in docs/formulas"
