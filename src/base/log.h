// Log: one line an event, for a person with a problem.
//
// Contract: process-wide, any thread; a line that is off costs one relaxed load and evaluates no
// argument. A line is written with one system call, so lines of several processes never mix in a
// shared file, and what is no UTF-8 or a control character (a stranger may have chosen it) becomes '?'
// (base/clean_text.h). Logging
// never fails the caller. Secrets are never passed to it.
//
// A thread of its own writes the lines (base/writer.h). The caller waits until its line is written, so
// that a crash behind it loses nothing, but only for kPatience, and not at all while an earlier line is
// stuck: on a disk that does not answer, or in a pipe that nobody reads. Of the lines that come meanwhile
// kLinesMax wait; the rest is dropped, and a line says how many once lines are written again.
//
//   2026-01-31T12:00:00.000123Z node3:4711 [rank 2] warn tcp: rail eth1 to rank 0: ...
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace nezha {
struct Config;
}

namespace nezha::log {

enum class Level : uint8_t { error = 0, warn = 1, info = 2, debug = 3, trace = 4 };

std::string_view name_of(Level level);
std::optional<Level> level_from_name(std::string_view name);

namespace internal {
extern std::atomic<uint8_t> threshold;
}

inline bool enabled(Level level) {
  return static_cast<uint8_t>(level) <= internal::threshold.load(std::memory_order_relaxed);
}
Level level();
void set_level(Level level);

// Where lines go: "" is stderr; in a path, %h is the host's name and %p the process id. The file is
// appended to. `invalid_argument` when it cannot be opened; lines then go where they went before.
Status set_file(std::string_view path);

// Whether what was said until now is written, now or within `patience`.
bool finish(Nanoseconds patience) noexcept;

// Level and file of `config`, then its warnings as lines (each text once per process).
Status start(const Config& config);

// A line at warn, unless this process has said the same before: for what holds for as long as it lives.
void warn_once(const char* subsystem, const std::string& text);

// Lines of this thread carry "[rank N]" while the scope lives: several ranks may share a process.
class RankScope {
 public:
  explicit RankScope(int rank);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  int previous_;
};

// Writes without asking for the level; use the macros.
[[gnu::format(printf, 3, 4)]] void write(Level level, const char* subsystem, const char* format,
                                         ...);

}  // namespace nezha::log

// NEZHA_LOG(warn, "tcp", "rail %s: ...", name)
#define NEZHA_LOG(level, subsystem, ...)                                            \
  do {                                                                              \
    if (::nezha::log::enabled(::nezha::log::Level::level)) [[unlikely]] {           \
      ::nezha::log::write(::nezha::log::Level::level, subsystem, __VA_ARGS__);      \
    }                                                                               \
  } while (false)
