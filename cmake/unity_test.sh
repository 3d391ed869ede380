#!/bin/sh
# unity_test.sh SOURCE_DIRECTORY COMPILER: sources that unity_groups.awk puts into one group compile as one, and those
# that do not are kept apart, each for its reason.
set -eu
source=$1
compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# write NAME: the source of that name, from standard input, in the namespace `here`
write() { { echo 'namespace here {'; cat; echo '}  // namespace here'; } >"$1"; echo "${2:-lib} $work/$1" >>list; }
hidden() { { echo 'namespace {'; cat; echo '}  // namespace'; } | write "$@"; }

write shape.hpp - <<END
struct Shape {
  int a;
};
int area(Shape s);
END
hidden alone.cpp <<END
struct Shape {
  int b;
};
END
hidden a.cpp <<END
int twice(int x) { return 2 * x; }
END
hidden b.cpp <<END
double twice(int x, int y) { return x + y; }
END
hidden c.cpp <<END
constexpr int twice[] = {2, 2};
END
write d.cpp <<END
int twice(double x) { return int(x); }
END
write e.cpp <<END
int thrice(int x) { return 3 * x; }
END
write f.cpp <<END
int thrice(double x) { return int(3 * x); }
END
hidden g.cpp <<END
template <typename T, int n = 3>
std::map<int, std::pair<T, int>> four(T x) {
  return {};
}
using Pair = int;
END
hidden h.cpp <<END
int area(int a, int b) { return a * b; }
END
hidden i.cpp <<END
int all(Shape s) { return area(s); }
END
hidden other.cpp other <<END
int twice(int x) { return 2 * x; }
END

awk -v most=4 -f "$source/cmake/unity_groups.awk" list | sed "s#$work/##" >groups
cat >wanted <<END
alone.cpp 0
a.cpp 1
b.cpp 2
c.cpp 3
d.cpp 4
e.cpp 1
f.cpp 1
g.cpp 1
h.cpp 2
i.cpp 3
other.cpp 1
END
diff wanted groups
for group in 1 2 3; do
  printf '#include <map>\n#include <utility>\n#include "shape.hpp"\n' >one.cpp
  sed -n "/other/d; s/\(.*\) $group\$/#include \"\1\"/p" groups >>one.cpp
  "$compiler" -std=c++20 -fsyntax-only one.cpp
done
echo "sources that share a name are not compiled together"
