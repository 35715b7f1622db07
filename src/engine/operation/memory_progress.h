// MemoryProgress: moves the operations that run in the memory of this host, as part of the loop.
//
// Contract: owned by an Engine; progress lock held. In one area operations run one after the other,
// in several areas beside each other. While a caller waits for an operation that has begun, `poll`
// itself waits for a moment, because a turn of the loop takes longer than a short operation. It
// looks again and again, if there are as many processors as ranks; then it gives the processor away
// between the looks, because the rank that is waited for may need it. Before the loop sleeps the
// areas say for whom this rank waits, and the bell wakes it.
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
  // The operation has started; it is moved until it is done or forgotten.
  void began(Execution& execution);
  void forget(const Execution& execution) { std::erase(running_, &execution); }
  // Moves operations until no caller waits for one, or a moment has passed; true: something moved.
  bool attend();

 private:
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
  bool said_ = false;   // the areas say that this rank sleeps
  const bool crowded_;  // more ranks than processors
};

}  // namespace nezha::engine
