# Helpers shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Servers live in sbin, which is not on the PATH of every ordinary user.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# A port of the loopback interface on which nobody listens. The range lies below the ephemeral one, so that
# an outgoing connection of somebody else cannot take the port between this check and the server's bind.
# The first port may be proposed by the caller. Whoever uses the port must still be ready to fail on bind.
free_port() {
  local port=${1:-} tries
  for tries in {1..200}; do
    [[ -n $port ]] || port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
    port=
  done
  die "no free port found on 127.0.0.1 in $tries tries"
}

# The status code of a GET on 127.0.0.1, or nothing. A new machine may have no curl.
http_status() {
  local port=$1 path=$2
  (
    exec 3<>"/dev/tcp/127.0.0.1/$port" || exit
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$path" >&3
    IFS=' ' read -r -t 3 _ code _ <&3 && echo "$code"
  ) 2>/dev/null || true
}

# Runs a command in a process group of its own. Bash acts on a signal only after its foreground child ended,
# so a script that waits here can clean up at once, and `end_group` reaches the children of the command too.
run_group() {
  local status=0
  start_group "$@"
  wait "$group" || status=$?
  group=
  return "$status"
}

# The same without waiting; the process is left in `$group`.
start_group() {
  set -m # a job of its own: a new process group in which SIGINT is not ignored
  "$@" </dev/null &
  group=$!
  set +m
}

# Ends a process group: asks first, insists after some seconds.
end_group() {
  local pgid=${1:-} patience=${2:-5} i
  [[ -n $pgid ]] || return 0
  kill -TERM -- "-$pgid" 2>/dev/null || return 0
  for ((i = 0; i < patience * 10; i++)); do
    kill -0 -- "-$pgid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$pgid" 2>/dev/null || true
  wait "$pgid" 2>/dev/null || true
}

# Turns the usual ways of being interrupted into an exit, so that one EXIT trap is enough to clean up.
exit_on_signals() {
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# A folder for one set of private services, which no other run shares.
fresh_run_dir() {
  mkdir -p "$root/.run" || die "cannot write to $root/.run"
  mktemp -d "$root/.run/$1.XXXXXX"
}

find_cargo() {
  if ! command -v cargo >/dev/null; then
    export PATH="$PATH:${CARGO_HOME:-${HOME:-}/.cargo}/bin"
  fi
  command -v cargo >/dev/null ||
    die "cargo is missing: install the Rust toolchain (rustup), $(grep -m1 '^rust-version' "$root/Cargo.toml")"
  # Behind a rustup that has no toolchain yet, this prints what to do.
  cargo --version >/dev/null || die "cargo does not run, see above"
}

# `sudo` when it is needed and there, nothing for root; fails when there is no way to become root.
# Asks for a password only where somebody can answer.
as_root=()
find_root() {
  [[ $(id -u) -ne 0 ]] || return 0
  command -v sudo >/dev/null || return 1
  # The password is asked for here, in the foreground: what needs it later may run in the background.
  if sudo -n true 2>/dev/null || { [[ -t 0 && -t 2 ]] && sudo -v; }; then
    as_root=(sudo)
  else
    return 1
  fi
}

# aws-lc-sys, under the TLS and token code, is compiled from C.
find_c_compiler() {
  ! command -v "${CC:-cc}" >/dev/null || return 0
  { command -v apt-get >/dev/null && find_root; } ||
    die "no C compiler: install one (Debian: gcc and libc6-dev) or point CC at it"
  say "installing a C compiler (gcc, libc6-dev)"
  "${as_root[@]}" apt-get update -q >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends --no-remove \
    gcc libc6-dev </dev/null >&2
}
