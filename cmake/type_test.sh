#!/bin/sh
# type_test.sh SOURCE_DIRECTORY: fails when two of our headers define a type of one name in one namespace. Programs that
# link both would have two meanings of one name, which no linker reports.
set -eu
cd "$1"
find core framework sim planner forecast jobs serve validate sweep report exec edit cli python gui -name '*.hpp' | sort | xargs awk '
  FNR == 1 { space = "" }
  /^namespace [a-z_:]+ \{/ { space = space "::" $2 }
  /^\}  \/\/ namespace/ { sub(/::[a-z_:]+$/, "", space) }
  /^(struct|class|enum class) [A-Za-z_]+/ && !/;$/ {
    name = $2 == "class" ? $3 : $2
    key = space "::" name
    if (key in seen && seen[key] != FILENAME) { print FILENAME ":" FNR ": error: " name " is also in " seen[key]; bad = 1 }
    seen[key] = FILENAME
  }
  END { if (!bad) print "every type in a header has a name of its own"; exit bad }'
