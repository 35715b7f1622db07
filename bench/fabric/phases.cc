#include "phases.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "watch.h"

namespace nezha::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSlotBits = 10;  // of the remote completion data; the rest is the round of the check
constexpr uint64_t kIdlePolls = 4096;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

uint64_t word_of(uint64_t seed, uint64_t index) {
  uint64_t x = (seed << 32) + index + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void fill(std::byte* to, uint64_t bytes, uint64_t seed) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = word_of(seed, at);
    std::memcpy(to + at, &word, std::min(sizeof word, static_cast<size_t>(bytes - at)));
  }
}

// Offset of the first word that differs, or `bytes`.
uint64_t first_difference(const std::byte* from, uint64_t bytes, uint64_t seed) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = word_of(seed, at);
    if (std::memcmp(from + at, &word, std::min(sizeof word, static_cast<size_t>(bytes - at))) != 0) {
      return at;
    }
  }
  return bytes;
}

// Polls until `done`. Yields whenever nothing came: where both halves (or the device itself, as with rxe)
// share a core, a loop that never yields keeps away what it waits for.
class Poller {
 public:
  Poller(Endpoint& endpoint, SideChannel& side) : endpoint_(endpoint), side_(side) {}

  template <typename Done>
  void until(Done done) {
    uint64_t idle = 0;
    while (!done()) {
      if (endpoint_.reap()) continue;
      sched_yield();
      if (++idle % kIdlePolls == 0 && side_.receive_token()) ++tokens_;
    }
  }

  // Tokens are counted, so that one which comes while something else is awaited is not lost.
  void await_token() {
    until([this] {
      if (tokens_ == 0 && side_.receive_token()) ++tokens_;
      return tokens_ > 0;
    });
    --tokens_;
    moved();
  }

  void give_token() { side_.send("t", 1); }

  void meet() {
    until([this] { return endpoint_.idle(); });
    give_token();
    await_token();
  }

 private:
  Endpoint& endpoint_;
  SideChannel& side_;
  uint64_t tokens_ = 0;
};

uint64_t round_size(const Options& options, uint64_t done) {
  return std::min(options.window, options.verified - done);
}

void send_checked(Endpoint& endpoint, Poller& poller, const Options& options) {
  enter_phase("checked writes", options.verified);
  uint64_t round = 0;
  for (uint64_t done = 0; done < options.verified; ++round) {
    const uint64_t count = round_size(options, done);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t slot = endpoint.next_slot();
      const auto data = static_cast<uint32_t>(round << kSlotBits | slot);
      fill(endpoint.slot(slot), options.size, data);
      poller.until([&] { return endpoint.write_slot(data); });
    }
    poller.until([&] { return endpoint.idle(); });
    poller.await_token();
    done += count;
  }
}

void receive_checked(Endpoint& endpoint, Poller& poller, const Options& options) {
  enter_phase("checked writes", options.verified);
  uint64_t round = 0;
  std::vector<bool> seen;
  endpoint.on_arrival([&](uint32_t data) {
    const uint64_t slot = data & ((1U << kSlotBits) - 1);
    if (data >> kSlotBits != round || slot >= options.window || seen[slot]) {
      fail("remote completion with data %u, which nobody wrote in round %llu", data,
           static_cast<unsigned long long>(round));
    }
    seen[slot] = true;
    const uint64_t at = first_difference(endpoint.slot(slot), options.size, data);
    if (at < options.size) {
      fail("round %llu, slot %llu: byte %llu or one of the 7 after it is wrong at its remote completion",
           static_cast<unsigned long long>(round), static_cast<unsigned long long>(slot),
           static_cast<unsigned long long>(at));
    }
  });
  for (uint64_t done = 0; done < options.verified; ++round) {
    const uint64_t count = round_size(options, done);
    seen.assign(options.window, false);
    const uint64_t before = endpoint.arrivals();
    poller.until([&] { return endpoint.arrivals() == before + count; });
    poller.give_token();  // the sender may use the slots again
    done += count;
  }
  endpoint.on_arrival(nullptr);
}

double send_window(Endpoint& endpoint, Poller& poller, const Options& options) {
  poller.meet();
  enter_phase("windowed writes", options.iterations);
  const auto start = Clock::now();
  for (uint64_t posted = 0; posted < options.iterations; ++posted) {
    poller.until([&] { return endpoint.write_slot(0); });
  }
  poller.await_token();
  return seconds_since(start);
}

void receive_window(Endpoint& endpoint, Poller& poller, const Options& options) {
  const uint64_t before = endpoint.arrivals();
  poller.meet();
  enter_phase("windowed writes", options.iterations);
  poller.until([&] { return endpoint.arrivals() == before + options.iterations; });
  poller.give_token();
}

// What an allreduce of two does, without the library: both halves write and are written to.
double exchange_window(Endpoint& endpoint, Poller& poller, const Options& options, bool sums) {
  std::vector<float> total(options.size / sizeof(float));
  const uint64_t before = endpoint.arrivals();
  endpoint.on_arrival([&](uint32_t slot) {
    if (!sums || slot >= options.window) return;
    const auto* from = reinterpret_cast<const float*>(endpoint.slot(slot));
    for (size_t i = 0; i < total.size(); ++i) total[i] += from[i];
  });
  poller.meet();
  enter_phase("writes both ways", options.iterations);
  const auto start = Clock::now();
  uint64_t posted = 0;
  poller.until([&] {
    while (posted < options.iterations && endpoint.has_slot() &&
           endpoint.write_slot(static_cast<uint32_t>(endpoint.next_slot()))) {
      ++posted;
    }
    return posted == options.iterations && endpoint.arrivals() == before + options.iterations;
  });
  poller.meet();
  endpoint.on_arrival(nullptr);
  return seconds_since(start);
}

enum class Verb { write, send };

struct Pong {
  Endpoint& endpoint;
  Poller& poller;
  Verb verb;
  uint64_t seen;  // arrivals or receives so far

  void prepare() {
    if (verb == Verb::send) poller.until([this] { return endpoint.receive_word(); });
  }

  void give(uint64_t value) {
    std::memcpy(endpoint.word_out(), &value, sizeof value);
    poller.until([this] {
      return verb == Verb::write ? endpoint.write_word(0) : endpoint.send_word();
    });
  }

  void await(uint64_t value) {
    ++seen;
    poller.until([this] {
      return (verb == Verb::write ? endpoint.arrivals() : endpoint.received()) >= seen;
    });
    std::atomic_thread_fence(std::memory_order_acquire);
    uint64_t got;
    std::memcpy(&got, endpoint.word_in(), sizeof got);
    if (got != value) {
      fail("a message of 8 bytes holds %llu instead of %llu", static_cast<unsigned long long>(got),
           static_cast<unsigned long long>(value));
    }
  }
};

double ping_pong(Endpoint& endpoint, Poller& poller, const Options& options, Verb verb, bool first) {
  const uint64_t before = verb == Verb::write ? endpoint.arrivals() : endpoint.received();
  poller.meet();
  enter_phase(verb == Verb::write ? "round trips of writes" : "round trips of sends",
              options.round_trips);
  Pong pong{endpoint, poller, verb, before};
  if (!first) pong.prepare();
  poller.give_token();
  poller.await_token();
  const auto start = Clock::now();
  for (uint64_t i = 1; i <= options.round_trips; ++i) {
    if (first) {
      pong.prepare();
      pong.give(i);
      pong.await(~i);
    } else {
      pong.await(i);
      if (i < options.round_trips) pong.prepare();
      pong.give(~i);
    }
  }
  return seconds_since(start) / static_cast<double>(options.round_trips) / 2;
}

}  // namespace

Results run_sender(Endpoint& endpoint, SideChannel& side, const Options& options) {
  Poller poller(endpoint, side);
  Results results;
  poller.meet();
  send_checked(endpoint, poller, options);
  results.verified = options.verified;
  for (uint64_t i = 0; i < options.repeats; ++i) {
    results.write_seconds.push_back(send_window(endpoint, poller, options));
  }
  for (const bool sums : {false, true}) {
    if (!options.both_ways) break;
    auto& list = sums ? results.sum_seconds : results.exchange_seconds;
    for (uint64_t i = 0; i < options.repeats; ++i) {
      list.push_back(exchange_window(endpoint, poller, options, sums));
    }
  }
  for (const Verb verb : {Verb::write, Verb::send}) {
    auto& list = verb == Verb::write ? results.write_latency_seconds : results.send_latency_seconds;
    for (uint64_t i = 0; i < options.repeats; ++i) {
      list.push_back(ping_pong(endpoint, poller, options, verb, true));
    }
  }
  poller.meet();
  return results;
}

void run_receiver(Endpoint& endpoint, SideChannel& side, const Options& options) {
  Poller poller(endpoint, side);
  poller.meet();
  receive_checked(endpoint, poller, options);
  for (uint64_t i = 0; i < options.repeats; ++i) receive_window(endpoint, poller, options);
  for (const bool sums : {false, true}) {
    if (!options.both_ways) break;
    for (uint64_t i = 0; i < options.repeats; ++i) exchange_window(endpoint, poller, options, sums);
  }
  for (const Verb verb : {Verb::write, Verb::send}) {
    for (uint64_t i = 0; i < options.repeats; ++i) ping_pong(endpoint, poller, options, verb, false);
  }
  poller.meet();
}

}  // namespace nezha::bench
