#!/usr/bin/env bash
# The tests, one line per step at the end. A step that fails does not keep the others from running. What later
# steps need is compiled at the lowest priority while others run, which mostly wait.
#
#   tools/run_tests.sh [--long] [STEP]...     steps: rules release python asan tsan rdma
#
# Without --long each C++ suite runs in the build that tells most about it, and tests marked "long" do not
# run. With it all suites run in all builds.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
JOBS=${JOBS:-$(nproc)}
AT_A_TIME=$((JOBS + 2))  # C++ cases: more than there are cores, because tests of faults wait for deadlines
# Property tests and simulations compute, with one thread: the optimised build.
declare -A SUITES=(
  [release]='property simulation exhaustion planted'
  [asan]='unit conformance fault capi fuzz'
  [tsan]='conformance fault capi'
)
# What differs from one collective, share, credit or kind of rail to the next is data; the threads are the same.
# Memory and its quotas, stores, whose clients are used by one thread each, and which ports listen are the
# address sanitizer's.
SAME_THREADS='conformance[_shm]*\.(Ranks/(Reduce|ReduceScatter|AllGather|GatherAndScatter|AllToAll|Invariant8SameBits)'
SAME_THREADS+='|Operations/EveryRail|SixteenRails|Ranks/AllReduceSuite\.LargeBuffers|Shares/AggregationShares|Worlds/Invariant6Credits|RedisStore'
SAME_THREADS+='|AggregationRails\.(SizesAndTypes|ANodeThatDies)|OwnAlgorithm\.DoesEveryDtypeAndOperator'
SAME_THREADS+='|Ranks/AllReduceSuite\.NanAndInfinity|Ranks/(AllReduceSuite|OtherCollectives)\..*/[67]$'
SAME_THREADS+='|Layouts/HierarchicalSuite\..*/on0(011|101|112222)|AggregatorQuotas|Kinds/StoreSuite)'
SAME_THREADS+='|conformance_shm\.Hierarchical\.|fault_ofi\.|fault_demand\.MessageError|fault_demand\.Scenarios/RankDies'
SAME_THREADS+='|fault[_a-z]*\.(Exposure|Tls/MemoryExposure|AggregatorRecovery|Matrix/Mismatch|RedisOutage|StoreWriter|Stores/'
SAME_THREADS+='|Elements/Exit\.InTheMiddleOfWorkIsNoCrash/200000)|fault_shm\.Elements/Exit'
# Of several sizes or forms of one simulation, those that take longest.
FORMS='simulation\.(Shapes/Table\..*/(blocking_long|four_asynchronous)|Shapes/ReturnOfARail\..*/one_of_a_minute'
FORMS+='|Sizes/ShortOperations\..*/all_reduce_262144_B_1_to_30_pull)'
# Worlds in memory and connected on demand: what the thread sanitizer has of them; threads meet in other ways there.
# Calls that disagree are found above the rails, and which collective it is: over TCP is enough.
WIRES='conformance_shm\.([^LRW]|Ranks/(Messages|OtherCollectives\..*/[0-5]$|Reduce|ReduceScatter|AllGather|GatherAndScatter))'
WIRES+='|fault_shm\.([^E]|EE)|fault_demand\.([^M]|Mi)|fault_(ofi|shm)\.Matrix/Mismatch'
# Large buffers of five ranks and more: what is new with them is data, and it is the same code under four. Hosts
# of seven ranks: over TCP is enough.
LARGE='conformance(_shm)?\.Ranks/.*\.Large(Buffers|BlocksAndUnequalOnes)/[4-9]$'
LARGE+='|conformance_shm\.Layouts/HierarchicalSuite\..*/on0112222'
declare -A BUT=([tsan]="^($SAME_THREADS)" [release]="^($FORMS)" [asan]="^($WIRES|$LARGE)")
MARKS='not long'
if [ "${1:-}" = --long ]; then
  shift
  export NEZHA_TEST_FORM=long  # tests/support/form.h
  MARKS=''
  BUT=()
  SUITES[release]='unit conformance property fault capi fuzz simulation exhaustion planted'
  SUITES[asan]='unit conformance property fault capi fuzz'
  SUITES[tsan]='unit conformance fault capi'
fi
summary=()
failed=0
SKIPPED=77  # the status of a step that this machine cannot run, and that has said why

step() {
  local name=$1 start=$SECONDS status=0 word
  shift
  echo "== $name"
  "$@" || status=$?
  case $status in
    0) word=passed ;;
    "$SKIPPED") word=skipped ;;
    *) word=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-34s %-7s %4d s' "$name" "$word" $((SECONDS - start)))")
}

quietly() { # shows the output of what fails only
  local log=build/$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; return 1; }
}

rules() {
  local rule status=0
  for rule in check_layers tidy features promises progress_lock; do
    .venv/bin/python "tools/$rule.py" || status=1
  done
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

build() { # PRESET...; at the lowest priority
  local preset status=0
  for preset in "$@"; do
    # shellcheck disable=SC2046  # a list of targets
    quietly "configure-$preset" cmake --preset "$preset" &&
      quietly "build-$preset" fixed_addresses nice -n 19 cmake --build "build/$preset" -j "$JOBS" \
        --target $(targets "$preset") && touch "build/$preset.built" || status=1
  done
  return $status
}

targets() { # PRESET
  local suite
  [ "$1" != release ] || echo for_python_tests
  for suite in ${SUITES[$1]}; do [ "$suite" = planted ] && echo planted_bugs || echo "${suite}_tests"; done
}

cpp() { # PRESET
  local which=(-L "^(${SUITES[$1]// /|})\$")
  [ -z "${BUT[$1]:-}" ] || which+=(-E "${BUT[$1]}")
  [ -f "build/$1.built" ] || return 1
  ctests "$1" "${which[@]}" -j "$AT_A_TIME" --no-tests=error
}

ctests() { # PRESET OPTION...; its log keeps what is not worth showing
  fixed_addresses ctest --test-dir "build/$1" "${@:2}" --output-on-failure 2>&1 | tee "build/ctest-$1.log" |
    grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$' | sed -E 's/ \.{4,}/ .../'
  local status=${PIPESTATUS[0]}
  # ctest takes an expression with too many parentheses as one that leaves out nothing.
  ! grep RegularExpression "build/ctest-$1.log" && return "$status"
}

python() { # the lab mostly waits, so the other folders run beside it, with what it leaves of the processors
  local folders=(tests/python) folder lab status=0
  wait "$torch"
  if .venv/bin/python -c 'import torch' 2>/dev/null; then
    folders+=(tests/torch_backend)
  else
    echo "SKIPPED [1] tests/torch_backend: torch is not installed, see build/torch.log" |
      tee build/pytest-torch_backend.log
  fi
  # One by one: each folder has helpers of its own in a conftest.py.
  pytests tests/lab >build/lab.log 2>&1 &
  lab=$!
  for folder in "${folders[@]}"; do pytests "$folder" nice -n 10 || status=1; done
  wait "$lab" || status=1
  cat build/lab.log
  return $status
}

pytests() { # FOLDER [COMMAND]...
  local name=${1##*/}
  "${@:2}" .venv/bin/python -m pytest -q --durations=10 --durations-min=1 -m "$MARKS" \
    -o "cache_dir=build/pytest-$name" "$1" | tee "build/pytest-$name.log"
  return "${PIPESTATUS[0]}"
}

rdma() { # one job over Soft-RoCE in a guest
  PYTHONPATH=tests .venv/bin/python -m rdma test --short | tee build/rdma.log
  return "${PIPESTATUS[0]}"
}

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# A process that ends while threads run sleeps for a second by default, so that their races are seen.
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=200

[ $# -gt 0 ] || set -- rules release python asan tsan rdma
presets=()
for name in "$@"; do
  case $name in
    release | asan | tsan) presets+=("$name") ;;
    rules | python | rdma) ;;
    *) echo "unknown step $name" >&2; exit 2 ;;
  esac
done

mkdir -p build
rm -f build/*.built build/ctest-*.log build/pytest-*.log build/rdma.log
set -m  # process groups of their own, so that an interrupted run leaves no compiler behind
# With TORCH, the Makefile's stamp of its installation, torch is installed meanwhile.
{ [ -z "${TORCH:-}" ] || nice -n 19 make -s "$TORCH"; } &
torch=$!
build "${presets[@]}" &
builder=$!
set +m
trap 'kill -- -"$builder" -"$torch" 2>/dev/null; kill -CONT -- -"$builder" 2>/dev/null' EXIT
built() { # PRESET; waits until it is, or nothing is built any more
  while [ ! -f "build/$1.built" ] && kill -0 "$builder" 2>/dev/null; do sleep 1; done
  [ -f "build/$1.built" ]
}
for name in "$@"; do
  case $name in
    rules) step "house rules" rules ;;
    python) step "Python and lab tests" python ;;
    rdma) step "RDMA in a guest" rdma ;;
    *)
      step "C++ build, $name: what was left" built "$name"
      step "C++ tests, $name" cpp "$name"
      ;;
  esac
done

echo
echo "the slowest cases:"
.venv/bin/python tools/report_tests.py slowest
printf '%s\n' "${summary[@]}" "$(printf '%-34s         %4d s' "all together" $SECONDS)"
skips=$(.venv/bin/python tools/report_tests.py skipped)
[ -z "$skips" ] || printf 'skipped:\n%s\n' "$skips"
if [ "$failed" != 0 ]; then
  echo "some steps FAILED"
elif [ -n "$skips" ]; then
  echo "all steps passed, without the $(wc -l <<<"$skips") kinds of cases that were skipped, see above"
else
  echo "all steps passed"
fi
exit "$failed"
