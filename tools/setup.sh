#!/usr/bin/env bash
# Brings a machine to where the project can be built and tested: system packages (as root, where apt
# is) and a Python environment. Quiet when there is nothing to do. Without root it says what is
# missing and how to get it, and goes on with what pip can supply.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
LOG=build/setup.log
mkdir -p build

has_command() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
has_header() { printf '#include <%s>\n' "$1" | c++ -E -x c++ - >/dev/null 2>&1; }

# package | what shows that it is there | needed or optional | what for
missing() {
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
    has_header gtest/gtest.h || echo "libgtest-dev needed the C++ tests"
  else
    printf '%s\n' "libssl-dev needed authentication" "nlohmann-json3-dev needed JSON" \
      "libgtest-dev needed the C++ tests" "libfabric-dev optional RDMA rails"
  fi
  [ -e /usr/include/simgrid/s4u.hpp ] || echo "libsimgrid-dev optional the comparison of nezha sim with SimGrid"
  has_command fi_info || echo "libfabric-bin optional a look at RDMA devices"
  has_command redis-server || echo "redis-server optional the tests of redis:// stores"
  has_command openssl || echo "openssl optional the tests of rediss:// stores"
  has_command ccache || echo "ccache optional building again quickly"
  has_command ip || echo "iproute2 optional the tests of the lab"
  has_command nmap || echo "nmap optional the test that has a job's ports scanned"
  has_command setsid || echo "util-linux optional ranks on other hosts"
}

install_system_packages() {
  local list packages
  list=$(missing)
  [ -n "$list" ] || return 0
  packages=$(cut -d' ' -f1 <<<"$list" | tr '\n' ' ')
  if [ "$(id -u)" = 0 ] && has_command apt-get; then
    echo "installing $packages(log: $LOG)"
    # shellcheck disable=SC2086
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
        --no-install-recommends $packages; } >>"$LOG" 2>&1 || echo "apt-get failed, see $LOG"
    list=$(missing)
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
  [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
  local extra=()
  has_command cmake || extra+=(cmake)
  has_command ninja || extra+=(ninja)
  echo "installing Python packages into $VENV"
  "$VENV/bin/python" - "${extra[@]}" >build/requirements.txt <<'PYTHON_CODE'
import re, sys
text = open("pyproject.toml").read()
def entries(name):
    body = re.search(rf"^{name} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r'"([^"]+)"', body)
names = [entries(name) for name in ("requires", "dependencies", "demo", "test", "lint")]
print("\n".join(sorted({entry for group in names for entry in group} | set(sys.argv[1:]))))
PYTHON_CODE
  # Python compiles what is imported; pip would compile everything.
  "$VENV/bin/pip" install -q --no-compile --disable-pip-version-check --root-user-action=ignore \
    -r build/requirements.txt
}

install_system_packages
make_environment
