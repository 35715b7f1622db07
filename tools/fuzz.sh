#!/usr/bin/env bash
# Fuzzes every parser under AddressSanitizer and UndefinedBehaviorSanitizer: the kept corpus first, then
# mutations of it, as many targets at once as there are processors. One line a target, when it is through;
# the input of a finding is left in build/fuzz/<target>/.
#
#   tools/fuzz.sh [EXECUTIONS] [TARGET...]      5000000 of each target unless told; of those that exchange
#                                               keys or make connections for every input a fiftieth
set -euo pipefail
cd "$(dirname "$0")/.."

executions=${1:-5000000}
[ $# -eq 0 ] || shift
build=build/asan
out=build/fuzz
seed=${NEZHA_FUZZ_SEED:-$(date +%s)}

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi

mkdir -p "$out"
cmake --preset asan >"$out/build.log"
programs=()
for target in "${targets[@]}"; do programs+=("${target}_fuzz"); done
if ! cmake --build "$build" --target "${programs[@]}" >>"$out/build.log" 2>&1; then
  tail -20 "$out/build.log"
  exit 1
fi

root=$PWD

fuzz() {  # TARGET
  local folder=$out/$1 begin=$SECONDS verdict=ok made count=$executions
  case $1 in tls*|job_session|listener) count=$((executions / 50)) ;; esac
  mkdir -p "$folder"
  (cd "$folder" && "$root/$build/tests/$1_fuzz" --executions "$count" --seed "$seed" \
    "$root/tests/fuzz/corpus/$1" >log 2>&1) || verdict="FINDING, seed $seed: $folder/log"
  made=$(sed -n 's/^fuzz: \([0-9]*\) executions.*/\1/p' "$folder/log")
  printf '%-10s %12s %9d  %s\n' "$1" "${made:-?}" $((SECONDS - begin)) "$verdict"
  [ "$verdict" = ok ]
}

findings=0
printf '%-10s %12s %9s  %s\n' target executions seconds verdict
for target in "${targets[@]}"; do
  if [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; then wait -n || findings=$((findings + 1)); fi
  fuzz "$target" &
done
while [ -n "$(jobs -p)" ]; do wait -n || findings=$((findings + 1)); jobs >/dev/null; done
exit $((findings > 0))
