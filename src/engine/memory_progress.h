// MemoryProgress: moves the operations that run in the memory of this host, as part of the loop.
//
// Contract: owned by an Engine; progress lock held. While somebody waits for an operation that has begun,
// `poll` itself waits for a moment, as a turn of the loop costs more than what short operations take: it
// looks again and again, if there are as many processors as ranks, and then gives the processor away
// between the looks, as who is waited for may need it. Before the loop sleeps the area says for whom,
// and the bell wakes it.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "memory/host_memory.h"
#include "progress/loop.h"

namespace nezha::engine {

class Engine;
class Execution;
struct Group;

class MemoryProgress final : private progress::Pollable, private progress::Polled {
 public:
  static Result<std::unique_ptr<MemoryProgress>> create(progress::Loop& loop, Engine& engine,
                                                        memory::Host host);
  ~MemoryProgress() override;
  MemoryProgress(const MemoryProgress&) = delete;
  MemoryProgress& operator=(const MemoryProgress&) = delete;

  memory::Area* area_of(const std::vector<int>& members) { return memory_.area_of(members); }
  const memory::Area& area() const { return memory_.area(); }
  // Until no operation runs that somebody waits for, or a moment has passed; true when anything moved.
  bool attend();

 private:
  static constexpr int kLooks = 20;  // about a microsecond
  static constexpr int kYields = 15;

  MemoryProgress(progress::Loop& loop, Engine& engine, memory::Host host);
  // The operation that runs; null: there is none.
  Execution* running() const;
  bool advance(bool sleeps);
  void on_ready(uint32_t epoll_events) override;
  bool poll() override;
  Sleep may_sleep() override;

  progress::Loop& loop_;
  Engine& engine_;
  memory::HostMemory memory_;
  const bool crowded_;  // more ranks than processors
};

}  // namespace nezha::engine
