#include "progress/loop.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>

#include "base/check.h"

namespace nezha::progress {

Result<std::unique_ptr<Loop>> Loop::create(const Clock& clock, Nanoseconds spin_ns) {
  std::unique_ptr<Loop> loop(new Loop(clock, spin_ns));
  loop->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  loop->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the wake-up itself has no pollable
  if (loop->epoll_fd_ < 0 || loop->wake_fd_ < 0 ||
      epoll_ctl(loop->epoll_fd_, EPOLL_CTL_ADD, loop->wake_fd_, &event) != 0) {
    return error(Code::exhausted, "cannot create the progress loop: %s; raise the descriptor limit "
                 "(ulimit -n)", std::strerror(errno)).with_errno(errno);
  }
  return loop;
}

Loop::~Loop() {
  stop();
  if (wake_fd_ >= 0) close(wake_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status Loop::start() {
  NEZHA_CHECK(client_ != nullptr && !thread_.joinable());
  try {
    thread_ = std::thread([this]() NEZHA_EXCLUDES_LOCK { background(); });
  } catch (const std::system_error& failure) {
    return error(Code::exhausted, "cannot start the background thread: %s; raise the thread limit "
                 "(ulimit -u)", failure.what());
  }
  return Status::ok();
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  background_changed_.notify_all();
  wake();
  thread_.join();
}

Status Loop::add(int fd, uint32_t epoll_events, Pollable* pollable) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.ptr = pollable;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    const char* const limit = errno == ENOSPC ? "; raise fs.epoll.max_user_watches" : "";
    return error(Code::exhausted, "cannot watch descriptor %d: %s%s", fd, std::strerror(errno), limit)
        .with_errno(errno);
  }
  return Status::ok();
}

Status Loop::modify(int fd, uint32_t epoll_events, Pollable* pollable) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.ptr = pollable;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) != 0) {
    return error(Code::internal, "cannot change the events of descriptor %d: %s", fd,
                 std::strerror(errno)).with_errno(errno);
  }
  return Status::ok();
}

void Loop::remove(int fd, Pollable* pollable) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  // Events already reaped in this turn must not reach an object that is going away.
  for (int i = event_next_; i < event_count_; ++i) {
    if (events_[i].data.ptr == pollable) events_[i].data.ptr = nullptr;
  }
}

void Loop::remove_polled(Polled* polled) {
  const auto found = std::find(polled_.begin(), polled_.end(), polled);
  if (found == polled_.end()) return;
  if (static_cast<size_t>(found - polled_.begin()) < polled_next_) --polled_next_;
  polled_.erase(found);
}

void Loop::kick(bool at_once) {
  {
    std::lock_guard lock(mutex_);
    if (kicked_ && !at_once) return;  // the background thread is awake
    kicked_ = true;
    at_once_ = at_once;
  }
  background_changed_.notify_one();
}

void Loop::acquire() {
  NEZHA_CHECK(!this_thread_has_the_lock());
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  if (ticket != serving_) {
    wanted_.fetch_add(1);
    if (sleeping_.load()) wake();
    turn_changed_.wait(lock, [&] { return serving_ == ticket; });
    wanted_.fetch_sub(1);
    ++counters_.handovers;
  }
  driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  acquisitions_.fetch_add(1, std::memory_order_relaxed);
}

bool Loop::acquire_if_free() {
  NEZHA_CHECK(!this_thread_has_the_lock());
  {
    std::lock_guard lock(mutex_);
    if (is_driven()) return false;
    ++next_ticket_;
  }
  driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  acquisitions_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Loop::release() {
  bool others = false;
  driver_.store({}, std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    ++serving_;
    others = is_driven();
  }
  if (others) turn_changed_.notify_all();
  if (sleepers_.load(std::memory_order_relaxed) > 0) wake_sleepers();
}

void Loop::sleep_behind_driver(Nanoseconds deadline) {
  // The limit bounds the delay when a wake-up comes between a thread's look and its sleep.
  const Nanoseconds limit = kMillisecond;
  const Nanoseconds left = deadline == kNever ? limit : std::min(limit, deadline - clock_.now());
  std::unique_lock lock(mutex_);
  if (!is_driven() || left <= 0) return;
  sleepers_.fetch_add(1);
  driver_moved_.wait_for(lock, std::chrono::nanoseconds(left));
  sleepers_.fetch_sub(1);
}

void Loop::wake_sleepers() {
  // Once this thread has had the mutex, no sleeper is between its look and its sleep.
  { std::lock_guard lock(mutex_); }
  driver_moved_.notify_all();
}

void Loop::wake() {
  const uint64_t one = 1;
  // A full counter already means "awake", so the result does not matter.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

int Loop::poll(int timeout_ms) {
  ++counters_.polls;
  const int count = epoll_wait(epoll_fd_, events_.data(), kEventsPerReap, timeout_ms);
  return std::max(count, 0);
}

int Loop::spin(Nanoseconds until, bool* news) {
  int count = poll(0);
  if (count != 0) return count;  // without reading the clock
  const Nanoseconds end = std::min(until, clock_.now() + spin_ns_);
  while (count == 0 && !contended() && clock_.now() < end) {
    if (*news = ask_polled(); *news) break;
    sched_yield();
    count = poll(0);
  }
  return count;
}

template <class Call>
void Loop::guarded(Call call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    client_->out_of_memory();
  }
}

bool Loop::ask_polled() {
  bool any = false;
  guarded([&]() NEZHA_REQUIRES_LOCK {
    for (polled_next_ = 0; polled_next_ < polled_.size();) any |= polled_[polled_next_++]->poll();
  });
  polled_next_ = 0;
  return any;
}

// Pauses so that arriving pieces gather; only other threads end the pause early. False when no
// Polled asked for a pause.
bool Loop::pause_to_gather(Nanoseconds until) {
  Nanoseconds pause = 0;
  for (Polled* polled : polled_) pause = std::max(pause, polled->gathers());
  if (pause == 0) return false;
  pause = std::min({pause, kMillisecond - 1, until - clock_.now()});
  if (pause <= 0) return false;
  const timespec limit{0, pause};
  pollfd others{wake_fd_, POLLIN, 0};
  sleeping_.store(true);
  if (!contended()) ppoll(&others, 1, &limit, nullptr);
  sleeping_.store(false);
  return true;
}

// How long the loop may sleep: `timeout_ms`, or less where a Polled does not allow as much.
int Loop::limit_sleep(int timeout_ms) {
  int limit_ms = 0;  // when memory runs out: this turn looks at what the client then ended
  guarded([&]() NEZHA_REQUIRES_LOCK {
    int allowed_ms = timeout_ms;
    for (Polled* polled : polled_) {
      const Polled::Sleep sleep = polled->may_sleep();
      if (sleep == Polled::Sleep::no) {
        sched_yield();  // the process that we wait for may need this processor
        return;
      }
      if (sleep == Polled::Sleep::briefly) allowed_ms = allowed_ms < 0 ? 1 : std::min(allowed_ms, 1);
    }
    limit_ms = allowed_ms;
  });
  return limit_ms;
}

int Loop::turn(Nanoseconds deadline, bool may_spin) {
  int count = 0;
  bool news = false;
  const Nanoseconds until = std::min(deadline, client_->next_wakeup());
  if (!polled_.empty() && until > clock_.now() && pause_to_gather(until)) {
    count = poll(0);
  } else if (may_spin && spin_ns_ > 0) {
    count = spin(until, &news);
  }
  if (count == 0 && !news) {
    int timeout_ms = -1;
    if (until != kNever) {
      const Nanoseconds left = std::max<Nanoseconds>(until - clock_.now(), 0);
      timeout_ms = static_cast<int>(std::min<Nanoseconds>(
          (left + kMillisecond - 1) / kMillisecond, 60'000));
    }
    // `sleeping_` is set before `wanted_` is checked: either this thread sees the request of
    // another, or that one sees this thread asleep.
    sleeping_.store(true);
    if (contended()) timeout_ms = 0;
    if (timeout_ms != 0) timeout_ms = limit_sleep(timeout_ms);
    if (timeout_ms != 0) ++counters_.sleeps;
    count = poll(timeout_ms);
    sleeping_.store(false);
  }
  event_count_ = count;
  if (!polled_.empty()) ask_polled();
  guarded([&]() NEZHA_REQUIRES_LOCK { serve(); });
  event_count_ = event_next_ = 0;
  return count;
}

void Loop::serve() {
  for (event_next_ = 0; event_next_ < event_count_;) {
    const epoll_event& event = events_[event_next_++];
    if (event.data.ptr != nullptr) {
      static_cast<Pollable*>(event.data.ptr)->on_ready(event.events);
    } else {
      uint64_t ignored;
      [[maybe_unused]] const ssize_t drained = read(wake_fd_, &ignored, sizeof(ignored));
    }
  }
  turned_at_ = clock_.now();
  client_->run(turned_at_);
}

// A caller that has started one operation often starts the next, or waits, at once. If this thread
// drove in between, each call would cost two hand-overs of the progress lock. Even a look whether
// somebody drives costs a switch of threads, so this thread looks ever more rarely.
void Loop::let_callers_go_on(std::unique_lock<std::mutex>& lock) {
  for (Nanoseconds waited = 0; waited < kPatience; waited += pause_) {
    const uint64_t before = acquisitions_.load();
    background_changed_.wait_for(lock, std::chrono::nanoseconds(pause_),
                                 [&] { return stopping_ || at_once_; });
    if (stopping_ || at_once_) return;
    if (acquisitions_.load() == before && !is_driven()) {
      pause_ = kPause;
      return;
    }
    pause_ = std::min(2 * pause_, kPauseMax);
  }
}

void Loop::background() {
  std::unique_lock lock(mutex_);
  uint64_t seen = acquisitions_.load();
  while (!stopping_) {
    const bool woken = background_changed_.wait_for(
        lock, std::chrono::nanoseconds(kIdleBeforeBackground),
        [&] { return stopping_ || kicked_; });
    if (woken) let_callers_go_on(lock);
    kicked_ = at_once_ = false;
    const uint64_t current = acquisitions_.load();
    const bool idle = current == seen;
    seen = current;
    // A thread that drives now moves everything, and kicks again if it leaves work behind.
    if (stopping_ || is_driven() || (!woken && !idle)) continue;
    lock.unlock();
    {
      Lock held(*this);
      bool may_spin = false;
      // Until somebody else asks, this thread is the driver.
      while (!contended()) {
        {
          std::lock_guard check(mutex_);
          if (stopping_) break;
        }
        may_spin = turn(kNever, may_spin) > 0 && client_->polling() == Polling::everyone;
        if (sleepers_.load(std::memory_order_relaxed) > 0) wake_sleepers();
      }
    }
    lock.lock();
    seen = acquisitions_.load();
  }
}

}  // namespace nezha::progress
