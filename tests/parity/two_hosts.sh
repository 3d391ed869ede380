#!/bin/sh
# Ranks on two hosts: two network namespaces with addresses of their own, joined
# by a virtual cable, so that every message crosses TCP.  Skipped (77) where this
# machine does not let us make them.
#
#   two_hosts.sh MPIRUN ORRERY
set -u
mpirun=$1
orrery=$2
work=$(mktemp -d)
a=orrery-a-$$
b=orrery-b-$$
export XDG_DATA_HOME="$work/home"

clean() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}
trap clean EXIT

skip() {
  echo "skipped: $1"
  exit 77
}

command -v ip >/dev/null || skip "there is no ip command"
[ "$(id -u)" -eq 0 ] || skip "only root makes network namespaces"
"$mpirun" --version 2>/dev/null | grep -q "Open MPI\|OpenRTE" || skip "how to reach a namespace is only known of Open MPI"
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || skip "no network namespaces here"
ip link add "va$$" netns "$a" type veth peer name "vb$$" netns "$b" 2>/dev/null || skip "no virtual cables here"
ip -n "$a" addr add 10.99.0.1/24 dev "va$$"
ip -n "$b" addr add 10.99.0.2/24 dev "vb$$"
for side in "$a va$$" "$b vb$$"; do
  # shellcheck disable=SC2086  # two words
  set -- $side
  ip -n "$1" link set lo up
  ip -n "$1" link set "$2" up
done

# What mpirun calls in place of ssh: HOST COMMAND...
cat >"$work/agent" <<END
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c 'hostname host-b; exec sh -c "\$0"' "\$*"
END
chmod +x "$work/agent"

ip netns exec "$a" unshare --uts sh -c 'hostname host-a; exec "$@"' sh \
  "$mpirun" --allow-run-as-root --oversubscribe -n 8 -host 10.99.0.1:4,10.99.0.2:4 \
  --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.99.0.0/24 \
  --mca oob_tcp_if_include 10.99.0.0/24 --mca mpi_yield_when_idle 1 \
  "$orrery" run demo-2x2x2 --backend mpi --steps 2 --warmup 0 --json >"$work/mpi.json" 2>"$work/error" || {
  cat "$work/error"
  exit 1
}
sent=$(ip -n "$b" -s link show dev "vb$$" | awk '/TX:/ {getline; print $1}')
"$orrery" run demo-2x2x2 --steps 2 --warmup 0 --json >"$work/threads.json" || exit 1
for key in losses sent_bytes peak_memory_bytes; do
  # A list stands on several lines.
  of() { tr -d ' \n' <"$1" | grep -o "\"$key\":\(\[[^]]*\]\|[^,}]*\)"; }
  if [ "$(of "$work/mpi.json")" != "$(of "$work/threads.json")" ] || [ -z "$(of "$work/mpi.json")" ]; then
    echo "$key differs: $(of "$work/mpi.json") over two hosts, $(of "$work/threads.json") as threads"
    exit 1
  fi
done
[ "$sent" -gt 100000 ] || {
  echo "only $sent bytes left host b: the ranks were not on two hosts"
  exit 1
}
echo "8 ranks on two hosts made what 8 threads make; $sent bytes left host b"
