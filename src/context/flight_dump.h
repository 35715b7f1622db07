// FlightDump: what a rank's flight recorder holds, as JSON and as a file: when a communicator fails, at a
// signal, and when asked.
//
// Contract
//   Owner    a Context, which outlives it with its loop and engine.
//   Threads  `write` waits for the disk and is for callers without a lock; all else, construction and
//            destruction too, happens with the loop's progress lock held.
//   Errors   a dump that cannot be written is `invalid_argument` for a caller who asked for it,
//            otherwise a warning in the log; it never disturbs an operation. The thread for files
//            (base/file.h) writes the dumps after failures and signals: operations end first, and
//            no disk delays the loop.
// docs/debugging.md describes the format and what reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "engine/engine.h"
#include "progress/loop.h"

namespace nezha::context {

struct FlightOrigin {
  uint64_t job = 0;  // equal on its ranks, different from run to run
  int rank = 0;
  int world_size = 1;
  std::vector<std::string> rails;  // names
};

// The file of a rank's dump. `setting`: the option flight_dump; "" means the working directory.
std::string flight_path(std::string_view setting, int rank);

class FlightDump final : public progress::Pollable {
 public:
  FlightDump(progress::Loop& loop, engine::Engine& engine, const Config& config,
             FlightOrigin origin);
  ~FlightDump() override;
  FlightDump(const FlightDump&) = delete;
  FlightDump& operator=(const FlightDump&) = delete;

  // Starts to watch for the configured signal, if there is one.
  Status watch_signal() NEZHA_REQUIRES_LOCK;

  // `reason`: "error", "signal" or "call".
  std::string json(std::string_view reason) const NEZHA_REQUIRES_LOCK;
  // Writes `json`, the text of json(), to `path`; "": where the option flight_dump says. Returns
  // the file's name.
  Result<std::string> write(const std::string& json, const std::string& path) const;

  // The signal came.
  void on_ready(uint32_t epoll_events) NEZHA_REQUIRES_LOCK override;

 private:
  void write_unasked(std::string_view reason) const NEZHA_REQUIRES_LOCK;

  progress::Loop& loop_;
  engine::Engine& engine_;
  const std::string setting_;
  const int signal_;
  const FlightOrigin origin_;
  int descriptor_ = -1;  // shared by the process
};

}  // namespace nezha::context
