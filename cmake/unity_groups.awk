# Which sources of a library may be compiled as one: no two of them give a name of their own to different things.
#
#   awk -v most=16 -f unity_groups.awk LIST
#
# LIST has a line for each file: its library and its path; headers have the library "-".  Prints a line for each source:
# path and group; groups of one library count from 1, have at most `most` sources, and 0 is for those that stay alone.
#
# It reads what clang-format leaves at the beginning of lines, which is what a namespace declares.  It errs on the safe
# side: between sources, names count whatever namespace they stand in.  A function of a source that is called like one of
# a header would hide that from other sources, so it stands with those alone that do not say its name.

{
  library[NR] = $1
  path[NR] = substr($0, length($1) + 2)
  n = NR
}

# Notes what a line declares in file f.
function declare(f, line, hidden,    name, kind) {
  if (line ~ /^#define /) {
    split(line, word, /[ (]/)
    note(f, word[2], "macro", 1)
    return
  }
  if (line !~ /^[A-Za-z_\[]/ || line ~ /^(namespace|template|public|private|extern)/ || line ~ /operator/) return
  sub(/^\[\[[a-z]+\]\] */, "", line)
  if (line ~ /^(struct|class|enum|union|using|concept) /) {
    sub(/^enum class/, "enum", line)
    split(line, word, /[^A-Za-z0-9_]+/)
    note(f, word[2], "type", 1)
    return
  }
  while (gsub(/<[^<>]*>/, "", line)) continue
  if (!match(line, /[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])* *[(={;]/)) return
  name = substr(line, RSTART, RLENGTH)
  kind = name ~ /\($/ ? "function" : "value"
  sub(/[^A-Za-z0-9_].*/, "", name)
  note(f, name, kind, hidden || kind == "value")
}

# `own`: a name that other sources may use for something else.
function note(f, name, kind, own,    outer) {
  if (library[f] == "-") {
    if (kind == "function") called[space "::" name] = 1; else named[space "::" name] = 1
    return
  }
  names[f] = names[f] " " name
  if (!own) return
  owns[f, name] = 1
  # A header's name of the same namespace, or of one around it.
  for (outer = space; outer != ""; ) {
    if (((outer "::" name) in named) || (kind != "function" && ((outer "::" name) in called))) alone[f] = 1
    if ((outer "::" name) in called) hides[f] = hides[f] " " name
    if (!sub(/::[a-z_0-9]+$/, "", outer)) outer = ""
  }
}

function say(f, line,    word, count, i) {
  sub(/ *\/\/.*/, "", line)
  count = split(line, word, /[^A-Za-z0-9_]+/)
  for (i = 1; i <= count; i++) {
    if (((f, word[i]) in said) || word[i] == "") continue
    said[f, word[i]] = 1
    says[f] = says[f] " " word[i]
  }
}

function read(f,    line, hidden, word) {
  hidden = 0
  space = ""
  while ((getline line < path[f]) > 0) {
    if (library[f] != "-") say(f, line)
    if (line ~ /^namespace \{/) hidden = 1
    else if (line == "}  // namespace") hidden = 0
    else if (line ~ /^namespace [a-z_0-9:]+ \{/) {
      split(line, word, " ")
      space = space (space == "" ? "" : "::") word[2]
    } else if (line ~ /^\}  \/\/ namespace/) {
      split(line, word, " ")
      space = substr(space, 1, length(space) - length(word[4]))
      sub(/::$/, "", space)
    } else declare(f, line, hidden)
  }
  close(path[f])
}

# Whether file f goes into a group: what either owns, the other does not name; what either hides, the other does not say.
function fits(f, group,    word, count, i) {
  count = split(names[f], word, " ")
  for (i = 1; i <= count; i++) {
    if ((group, word[i]) in taken || ((f, word[i]) in owns && (group, word[i]) in present)) return 0
  }
  count = split(hides[f], word, " ")
  for (i = 1; i <= count; i++) if ((group, word[i]) in said) return 0
  count = split(hides[group], word, " ")
  for (i = 1; i <= count; i++) if ((f, word[i]) in said) return 0
  return 1
}

function put(f, group,    word, count, i) {
  count = split(names[f], word, " ")
  for (i = 1; i <= count; i++) {
    present[group, word[i]] = 1
    if ((f, word[i]) in owns) taken[group, word[i]] = 1
  }
  count = split(says[f], word, " ")
  for (i = 1; i <= count; i++) said[group, word[i]] = 1
  hides[group] = hides[group] hides[f]
  size[group]++
}

END {
  for (f = 1; f <= n; f++) if (library[f] == "-") read(f)
  for (f = 1; f <= n; f++) {
    if (library[f] == "-") continue
    read(f)
    g = 0
    if (!(f in alone)) {
      for (g = 1; size[library[f] " " g] >= most || !fits(f, library[f] " " g); g++) continue
      put(f, library[f] " " g)
    }
    print path[f], g
  }
}
