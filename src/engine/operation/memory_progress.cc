#include "engine/operation/memory_progress.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>

#include "engine/operation/constants.h"
#include "engine/operation/operations.h"

namespace nezha::engine {
namespace {

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Result<std::unique_ptr<MemoryProgress>> MemoryProgress::create(progress::Loop& loop,
                                                               Operations& operations,
                                                               memory::Host host) {
  std::unique_ptr<MemoryProgress> made(new MemoryProgress(loop, operations, std::move(host)));
  NEZHA_RETURN_IF_ERROR(loop.add(made->memory_.bell(), EPOLLIN, made.get()));
  loop.add_polled(made.get());
  return made;
}

MemoryProgress::MemoryProgress(progress::Loop& loop, Operations& operations, memory::Host host)
    : loop_(loop), operations_(operations), memory_(std::move(host)),
      crowded_(memory_.ranks() > processors()) {}

MemoryProgress::~MemoryProgress() {
  loop_.remove(memory_.bell(), this);
  loop_.remove_polled(this);
}

void MemoryProgress::began(Execution& execution) {
  if (!execution.programs_done()) running_.push_back(&execution);
}

bool MemoryProgress::is_attended() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Execution* each) { return each->is_attended(); });
}

// When an operation ends, the next one of its group may begin.
bool MemoryProgress::advance(bool sleeps) {
  bool moved = false;
  for (size_t i = 0; i < running_.size();) {
    Execution& execution = *running_[i];
    if (execution.group().failed.is_ok()) moved |= execution.advance_in_memory(sleeps);
    if (!execution.programs_done()) {
      ++i;
      continue;
    }
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    operations_.progress(execution.group());
  }
  return moved;
}

bool MemoryProgress::attend() {
  if (said_) memory_.wake();
  said_ = false;
  bool moved = advance(false);
  const int first = crowded_ ? kMemoryLooks : 0;
  for (int look = first; look < kMemoryLooks + kMemoryYields && is_attended(); ++look) {
    look < kMemoryLooks ? pause_briefly() : static_cast<void>(sched_yield());
    if (!advance(false)) continue;
    moved = true;
    look = first;
  }
  return moved;
}

void MemoryProgress::on_ready(uint32_t) {
  memory_.empty_bell();
  attend();
}

bool MemoryProgress::poll() { return attend(); }

// First the areas say that this rank sleeps, then it looks once more. A rank that moves something after
// that look finds that this one sleeps, and wakes it.
progress::Polled::Sleep MemoryProgress::may_sleep() {
  said_ = true;
  return advance(true) ? Sleep::no : Sleep::until_woken;
}

}  // namespace nezha::engine
