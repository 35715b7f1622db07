#!/bin/sh
# Makes the figures of docs/performance.md that come from `nezha bench all_reduce`: one JSON file each,
# three launches. Takes about half an hour; name the ones you want to make only those.
#
#   bench/figures.sh [NAME...]                 names: the words before the colons below
#   bench/summarise.py out/figures             prints the tables' lines from the files
#
# Runs `nezha` from $NEZHA (default .venv/bin/nezha). Peers come from bench/install_peers.sh; one
# that is missing is named and left out. Nothing else should run on the machine meanwhile.
set -eu
nezha=${NEZHA:-.venv/bin/nezha}
out=${OUT:-out/figures}
wanted=" $* "
mkdir -p "$out"

figure() { # NAME OPTIONS...
  name=$1
  shift
  case $wanted in "  " | *" $name "*) ;; *) return 0 ;; esac
  echo "== $name: nezha bench all_reduce $*"
  "$nezha" bench all_reduce --nodes 4 --launches 3 --json "$out/$name.json" "$@" ||
    echo "== $name FAILED" >&2
}

sizes="-b 4 -e 64M -f 4"
figure one-rail --rates 1gbit $sizes --compare gloo,openmpi,mpich
figure equal --rates 1gbit,1gbit $sizes --compare gloo,openmpi,mpich
figure unequal --rates 1gbit,500mbit $sizes --compare gloo,openmpi,mpich
figure quarter --rates 1gbit,250mbit $sizes
figure tenth --rates 1gbit,100mbit $sizes
figure three --rates 1gbit,500mbit,250mbit $sizes
figure unshaped --rates none $sizes --compare gloo
figure table-policy --rates 1gbit,500mbit $sizes --policy table -w 200
figure round-robin --rates 1gbit,500mbit $sizes --policy round_robin
figure two-nodes --rates 1gbit,500mbit --nodes 2 $sizes
figure three-nodes --rates 1gbit,500mbit --nodes 3 $sizes
figure five-nodes --rates 1gbit,500mbit --nodes 5 $sizes
figure six-nodes --rates 1gbit,500mbit --nodes 6 $sizes
figure ofi --rates ofi:1gbit $sizes
figure ofi-two-nodes --rates ofi:1gbit --nodes 2 $sizes
figure tcp-ofi --rates tcp:1gbit,ofi:1gbit $sizes
figure tcp-ofi-unequal --rates tcp:1gbit,ofi:500mbit $sizes
figure ofi-tcp-unequal --rates ofi:1gbit,tcp:500mbit $sizes
figure tcp-ofi-slow --rates tcp:200mbit,ofi:200mbit $sizes
figure ofi-tcp-slow-unequal --rates ofi:200mbit,tcp:100mbit $sizes
figure ofi-shm --rates ofi:shm --nodes 2 $sizes
figure odd-size --rates 1gbit,500mbit -d int8 -b 10000003 -e 10000003
