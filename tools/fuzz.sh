#!/usr/bin/env bash
# Fuzzes every parser under AddressSanitizer and UndefinedBehaviorSanitizer: the kept corpus first, then
# mutations of it. One line a target; the input of a finding is left in build/fuzz/<target>/.
#
#   tools/fuzz.sh [EXECUTIONS] [TARGET...]      5000000 of each target unless told
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
findings=0
printf '%-10s %12s %9s  %s\n' target executions seconds verdict
for target in "${targets[@]}"; do
  folder=$out/$target
  mkdir -p "$folder"
  begin=$SECONDS
  verdict=ok
  (cd "$folder" && "$root/$build/tests/${target}_fuzz" --executions "$executions" --seed "$seed" \
    "$root/tests/fuzz/corpus/$target" >log 2>&1) || verdict="FINDING, seed $seed: $folder/log"
  [ "$verdict" = ok ] || findings=$((findings + 1))
  made=$(sed -n 's/^fuzz: \([0-9]*\) executions.*/\1/p' "$folder/log")
  printf '%-10s %12s %9d  %s\n' "$target" "${made:-?}" $((SECONDS - begin)) "$verdict"
done
exit $((findings > 0))
