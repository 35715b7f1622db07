// Watchdog: a test that hangs ends with a list of who was doing what, instead of with the runner's
// silence.
//
// Contract: any thread may `note`. When `limit_s` pass between construction and destruction, the
// notes are printed and the process aborts.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nezha::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr double kPatience_s = 300;
#else
inline constexpr double kPatience_s = 60;
#endif

class Watchdog {
 public:
  Watchdog(std::string name, int actors, double limit_s = kPatience_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void note(int actor, std::string doing);

 private:
  void watch(double limit_s);

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> doing_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace nezha::testing
