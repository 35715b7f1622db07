#!/usr/bin/env bash
# Brings a machine to where the project can be built (product), shown (demo), read (docs) or tested (tests):
# system packages (as root, where apt is) and a Python environment. Quiet when there is nothing to do. Without
# root it says what is missing and how to get it, and goes on with what pip can supply. It starts no service.
#
#   tools/setup.sh product|demo|docs|tests     the last three: after product
set -euo pipefail
cd "$(dirname "$0")/.."
PURPOSE=$1
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
LOG=build/setup.log
POLICY=${POLICY:-/usr/sbin/policy-rc.d}
mkdir -p build

# Lists in pyproject.toml.
declare -A GROUPS_OF=([product]="requires study" [demo]="demo" [docs]="docs" [tests]="demo test lint docs")

has_command() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
has_header() { printf '#include <%s>\n' "$1" | c++ -E -x c++ - >/dev/null 2>&1; }

# package | what shows that it is there | needed or optional | what for
missing_product() {
  has_command c++ || echo "g++ needed a C++20 compiler"
  has_command cmake || echo "cmake pip building"
  has_command ninja || echo "ninja-build pip building"
  "$PYTHON" -c 'import ensurepip' 2>/dev/null || echo "python3-venv needed the Python environment"
  "$PYTHON" -c 'import os, sysconfig; open(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' \
    2>/dev/null || echo "python3-dev needed the Python module"
  if has_command c++; then
    has_header openssl/hmac.h || echo "libssl-dev needed authentication"
    has_header nlohmann/json.hpp || echo "nlohmann-json3-dev needed JSON"
    has_header rdma/fi_rma.h || echo "libfabric-dev optional RDMA rails"
  else
    printf '%s\n' "libssl-dev needed authentication" "nlohmann-json3-dev needed JSON" \
      "libfabric-dev optional RDMA rails"
  fi
  has_command setsid || echo "util-linux optional ranks on other hosts"
}

missing_demo() { :; }  # Python packages only
missing_docs() { :; }

missing_tests() {
  has_header gtest/gtest.h || echo "libgtest-dev needed the C++ tests"
  [ -e /usr/include/simgrid/s4u.hpp ] || echo "libsimgrid-dev optional the comparison of nezha sim with SimGrid"
  has_command fi_info || echo "libfabric-bin optional a look at RDMA devices"
  has_command redis-server || has_command redis-check-rdb ||
    echo "redis-tools optional the tests of redis:// stores"
  has_command openssl || echo "openssl optional the tests of rediss:// stores"
  has_command ccache || echo "ccache optional building again quickly"
  has_command ip || echo "iproute2 optional the tests of the lab"
  has_command nmap || echo "nmap optional the test that has a job's ports scanned"
  has_command pkill || echo "procps optional the test of the command for a job that hangs"
  has_command slurmd || echo "slurm-wlm optional the test of a start under srun"
}

# Debian asks this program before it starts what a package brings (Slurm's depends on the daemon of munge).
start_no_service() {
  [ ! -e "$POLICY" ] || return 0
  trap 'rm -f "$POLICY"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$POLICY"
  chmod +x "$POLICY"
}

install_system_packages() {
  local list packages
  list=$("missing_$PURPOSE")
  [ -n "$list" ] || return 0
  packages=$(cut -d' ' -f1 <<<"$list" | tr '\n' ' ')
  if [ "$(id -u)" = 0 ] && has_command apt-get; then
    echo "installing $packages(log: $LOG)"
    start_no_service
    # shellcheck disable=SC2086
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
        --no-install-recommends $packages; } >>"$LOG" 2>&1 || echo "apt-get failed, see $LOG"
    list=$("missing_$PURPOSE")
  fi
  [ -n "$list" ] || return 0
  echo "missing:"
  while read -r package kind purpose; do echo "  $package ($kind) for $purpose"; done <<<"$list"
  echo "as root: apt-get install $(cut -d' ' -f1 <<<"$list" | tr '\n' ' ')"
  if grep -q ' needed ' <<<"$list"; then
    echo "going on without them is not possible"
    exit 1
  fi
}

make_environment() {
  local requirements=build/requirements-$PURPOSE.txt extra=()
  [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
  has_command cmake || extra+=(cmake)
  has_command ninja || extra+=(ninja)
  echo "installing Python packages for the $PURPOSE into $VENV"
  "$VENV/bin/python" - "${GROUPS_OF[$PURPOSE]}" "${extra[@]}" >"$requirements" <<'PYTHON_CODE'
import re, sys
text = open("pyproject.toml").read()
def entries(name):
    body = re.search(rf"^{name} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r'"([^"]+)"', body)
names = [entries(name) for name in sys.argv[1].split()]
print("\n".join(sorted({entry for group in names for entry in group} | set(sys.argv[2:]))))
PYTHON_CODE
  # Python compiles what is imported; pip would compile everything.
  "$VENV/bin/pip" install -q --no-compile --disable-pip-version-check --root-user-action=ignore \
    -r "$requirements"
}

# Debian's redis-tools has the server as redis-check-rdb: one program, which is what its name says. The package
# redis-server is a link to it and a service that runs from then on.
find_redis() {
  has_command redis-server || ! has_command redis-check-rdb ||
    ln -sf "$(command -v redis-check-rdb)" "$VENV/bin/redis-server"
}

install_system_packages
make_environment
[ "$PURPOSE" != tests ] || find_redis
