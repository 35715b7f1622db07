// Crowd: a process of strangers who hold connections to given ports of the first rail (stranger.h): some
// silent, some with a byte now and then, some who say a lot. Whoever is sent away comes again.
//
// Contract: made before the test has threads, because it forks; killed with this object. What happened is
// counted in memory that both processes share.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nezha::testing {

struct CrowdOptions {
  std::vector<uint16_t> ports;
  size_t per_port = 1000;
  // What stranger `number` says when it comes; "": nothing.
  std::function<std::string(size_t number)> first_words;
  // What stranger `number` says later, one byte a round; "": nothing.
  std::function<std::string(size_t number)> slow_words;
};

class Crowd {
 public:
  explicit Crowd(const CrowdOptions& options);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Waits until all strangers have a connection for the first time; false when they do not get one within
  // the test's patience.
  bool is_there() const;
  // Connections that were made, and that the other side ended.
  uint64_t came() const { return counters_->came; }
  uint64_t sent_away() const { return counters_->sent_away; }

 private:
  struct Counters {
    std::atomic<uint64_t> came;
    std::atomic<uint64_t> sent_away;
  };
  static void run(const CrowdOptions& options, Counters& counters);

  const uint64_t wanted_;
  Counters* counters_;
  pid_t process_;
};

}  // namespace nezha::testing
