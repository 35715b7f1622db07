// The library's log lines, kept until Python fetches them: nezha/_logging.py.
//
// A thread of the library that has something to say may hold locks for which a thread with the GIL waits,
// so it never takes the GIL itself.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "nezha/nezha.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {
namespace {

constexpr size_t kLinesMax = 10'000;  // beyond it lines are dropped, and counted

using Line = std::tuple<int, int, std::string, std::string>;  // level, rank, subsystem, text

struct Lines {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Line> kept;
  size_t dropped = 0;
  bool over = false;
};

// Never destroyed: threads of the library may outlive the interpreter.
std::atomic<Lines*> current{new Lines()};

Lines& lines() { return *current.load(std::memory_order_acquire); }

void keep(int level, int rank, const char* subsystem, const char* text) {
  Lines& all = lines();
  const std::lock_guard lock(all.mutex);
  if (all.kept.size() >= kLinesMax) {
    ++all.dropped;
    return;
  }
  all.kept.emplace_back(level, rank, subsystem, text);
  all.changed.notify_one();
}

// Lines are kept from now on, or go where they went before.
void take_log(bool take) { nezha_set_log_sink(take ? &keep : nullptr); }

// next_log_lines() returns what is there, and then at once.
void end_log() {
  Lines& all = lines();
  const std::lock_guard lock(all.mutex);
  all.over = true;
  all.changed.notify_all();
}

// In a child of fork(): a thread that is not there may have held the lock of what was kept.
void forget_log() {
  nezha_set_log_sink(nullptr);
  current.store(new Lines(), std::memory_order_release);
}

// Waits for lines. Empty: end_log() was called.
std::vector<Line> next_log_lines() {
  const nb::gil_scoped_release no_gil;
  Lines& all = lines();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return all.over || !all.kept.empty(); });
  std::vector<Line> taken = std::exchange(all.kept, {});
  if (const size_t dropped = std::exchange(all.dropped, 0); dropped > 0) {
    taken.emplace_back(1, -1, "log", std::to_string(dropped) + " lines were dropped: too many at once");
  }
  return taken;
}

}  // namespace

void bind_log(nb::module_& module) {
  module.def("take_log", &take_log, "take"_a);
  module.def("end_log", &end_log);
  module.def("forget_log", &forget_log);
  module.def("next_log_lines", &next_log_lines);
}

}  // namespace nezha::python
