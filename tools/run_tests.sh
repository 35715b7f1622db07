#!/usr/bin/env bash
# Every test, in the order in which failures explain most; one line per step at the end. A step that
# fails does not keep the others from running.
#
#   tools/run_tests.sh [STEP]...     steps: rules release asan tsan python rdma
set -uo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
JOBS=${JOBS:-$(nproc)}
LABELS='unit|conformance|property|fault|capi|fuzz'
THREADED='unit|conformance|fault|capi'  # the rest has one thread
FORGIVEN=3  # failures of a step that get a second try
summary=()
again=()
failed=0

step() {
  local name=$1 start=$SECONDS status
  shift
  echo "== $name"
  again=()
  if "$@"; then status=passed; else status=FAILED failed=1; fi
  summary+=("$(printf '%-34s %s  %4d s' "$name" "$status" $((SECONDS - start)))")
  if [ ${#again[@]} -gt 0 ]; then summary+=("${again[@]/#/    needed a second try: }"); fi
}

quietly() { # shows the output of what fails only
  local log=build/$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; return 1; }
}

rules() {
  local rule status=0
  for rule in check_layers tidy features; do .venv/bin/python "tools/$rule.py" || status=1; done
  .venv/bin/python -m ruff check --quiet . || status=1
  if .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    .venv/bin/python -m mypy || status=1
  else
    echo "mypy needs Python 3.10: types are not checked"
  fi
  return $status
}

# The thread sanitizer of older compilers cannot live with much address randomisation.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

cpp() { # PRESET LABELS [TARGET]...
  quietly "configure-$1" cmake --preset "$1" &&
    quietly "build-$1" fixed_addresses cmake --build "build/$1" -j "$JOBS" ${3:+--target "${@:3}"} &&
    { ctests "$1" -L "$2" -j "$JOBS" --no-tests=error || second_try "$1" -L "$2" -j 1; }
}

binaries() { sed 's/|\|$/_tests /g' <<<"$1"; }  # LABELS; the targets that have them

ctests() { # PRESET OPTION...; its log keeps what is not worth showing
  fixed_addresses ctest --test-dir "build/$1" "${@:2}" --output-on-failure | tee "build/ctest-$1.log" |
    grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
  return "${PIPESTATUS[0]}"
}

few() { [ $# -gt 0 ] && [ $# -le "$FORGIVEN" ]; }

# A machine that stands still for seconds looks like a dead peer to a test of deadlines. So a few that
# failed run once more, alone, and are named in the summary. A crash, or a sanitizer's finding, stays one.
second_try() { # PRESET OPTION...
  local log=build/ctest-$1.log names
  mapfile -t names < <(sed -n '/^The following tests FAILED/,$s/^\t *[0-9]* - \(.*\) (.*/\1/p' "$log")
  few "${names[@]}" && ! grep -qE 'Sanitizer|runtime error:|\(SEGFAULT\)' "$log" || return 1
  echo "== once more, alone: ${names[*]}"
  ctests "$@" --rerun-failed && again+=("${names[@]}")
}

python() {
  local folders=(tests/python tests/lab)
  if .venv/bin/python -c 'import torch' 2>/dev/null; then
    folders+=(tests/torch_backend)
  else
    echo "torch is not installed: tests/torch_backend is skipped"
  fi
  # One by one: each folder has helpers of its own in a conftest.py.
  local folder status=0
  for folder in "${folders[@]}"; do pytests "$folder" || status=1; done
  return $status
}

pytests() { # FOLDER; with a second try, as above
  local log=build/pytest-${1##*/}.log names
  .venv/bin/python -m pytest -q --durations=10 --durations-min=1 "$1" | tee "$log"
  [ "${PIPESTATUS[0]}" != 0 ] || return 0
  mapfile -t names < <(sed -n 's/^FAILED \([^ ]*\).*/\1/p' "$log")
  few "${names[@]}" && ! grep -q '^ERROR ' "$log" || return 1
  echo "== once more, alone: ${names[*]}"
  .venv/bin/python -m pytest -q --last-failed "$1" && again+=("${names[@]}")
}

rdma() { # one job over Soft-RoCE in a guest; 77: this machine cannot, and it has said why
  local status=0
  PYTHONPATH=tests .venv/bin/python -m rdma test --short || status=$?
  [ "$status" = 77 ] || return "$status"
}

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

mkdir -p build
# shellcheck disable=SC2046  # a list of targets
for wanted in "${@:-rules release asan tsan python rdma}"; do
  for name in $wanted; do
    case $name in
      rules) step "house rules" rules ;;
      release) step "C++ tests" cpp release "$LABELS|simulation|exhaustion|planted" ;;
      asan) step "C++ tests, address and undefined" cpp asan "$LABELS" $(binaries "$LABELS") ;;
      tsan) step "C++ tests, threads" cpp tsan "$THREADED" $(binaries "$THREADED") ;;
      python) step "Python and lab tests" python ;;
      rdma) step "RDMA in a guest" rdma ;;
      *) echo "unknown step $name" >&2; exit 2 ;;
    esac
  done
done

echo
echo "the slowest cases:"
.venv/bin/python tools/slowest.py
printf '%s\n' "${summary[@]}" "$(printf '%-34s         %4d s' "all together" $SECONDS)"
if [ "$failed" = 0 ]; then echo "all steps passed"; else echo "some steps FAILED"; fi
exit "$failed"
