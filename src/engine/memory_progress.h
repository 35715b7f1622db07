// MemoryProgress: moves the operations that run in the memory of this host, as part of the loop.
//
// Contract: owned by an Engine; progress lock held. One operation of a group runs at a time, those of
// several groups beside each other. While somebody waits for one that has begun, `poll` waits itself for
// a moment, as a turn of the loop costs more than what short operations take: it looks again and again,
// if there are as many processors as ranks, and then gives the processor away between the looks, as who
// is waited for may need it. Before the loop sleeps the areas say for whom, and the bell wakes it.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "memory/host_memory.h"
#include "progress/loop.h"

namespace nezha::engine {

class Execution;
class Operations;

class MemoryProgress final : private progress::Pollable, private progress::Polled {
 public:
  static Result<std::unique_ptr<MemoryProgress>> create(progress::Loop& loop, Operations& operations,
                                                        memory::Host host);
  ~MemoryProgress() override;
  MemoryProgress(const MemoryProgress&) = delete;
  MemoryProgress& operator=(const MemoryProgress&) = delete;

  memory::HostMemory& memory() { return memory_; }
  // One that has started; it runs until it is done or forgotten.
  void began(Execution& execution);
  void forget(const Execution& execution) { std::erase(running_, &execution); }
  // Until no operation runs that somebody waits for, or a moment has passed; true when anything moved.
  bool attend();

 private:
  static constexpr int kLooks = 20;  // about a microsecond
  static constexpr int kYields = 15;

  MemoryProgress(progress::Loop& loop, Operations& operations, memory::Host host);
  bool is_attended() const;
  bool advance(bool sleeps);
  void on_ready(uint32_t epoll_events) override;
  bool poll() override;
  Sleep may_sleep() override;

  progress::Loop& loop_;
  Operations& operations_;
  memory::HostMemory memory_;
  std::vector<Execution*> running_;
  bool said_ = false;   // in the areas, that this rank sleeps
  const bool crowded_;  // more ranks than processors
};

}  // namespace nezha::engine
