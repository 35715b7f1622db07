// StoreProxy: stands between a client and a store's server and spoils one of the answers.
//
// Contract: one thread of its own, from construction to destruction; the counters may be read at any
// time. An answer is what the server says after a request, so it is counted per request, over all
// connections. Both protocols of the stores (TCP, Redis) answer each request once.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "rendezvous/socket.h"

namespace nezha::testing {

struct Spoil {
  enum class Kind : uint8_t {
    nothing,
    close,    // instead of the answer
    reset,    // the same, as a killed process or a middlebox does
    cut,      // after `bytes` of it the connection ends
    replace,  // by `words`
    twice,    // said again
    late,     // after a quarter of a second
    drip,     // byte by byte
    silence,  // neither this nor another answer on that connection
    gone,     // the server ends: this connection and every later one is refused
  };
  Kind kind = Kind::nothing;
  std::string name;
  size_t bytes = 0;
  std::string words;
};

class StoreProxy {
 public:
  // The `at`-th answer, from 1, is spoilt.
  StoreProxy(std::string server_host, uint16_t server_port, Spoil spoil, int at);
  ~StoreProxy();
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;

  uint16_t port() const { return port_; }
  int answers() const { return answers_; }
  // The positive control: the fault took place.
  bool spoilt() const { return spoilt_; }
  // The next `connections` are accepted and closed, as by a server that is short of descriptors.
  void close_next(int connections) { to_close_ = connections; }
  int to_close() const { return to_close_; }

 private:
  struct Pair {
    Descriptor client;
    Descriptor server;
    bool asked = false;
    bool deaf = false;
    bool over = false;
  };

  void run();
  void turn();
  void accept_client();
  void from_client(Pair& pair);
  void from_server(Pair& pair);
  void spoil(Pair& pair, std::string answer);

  const std::string host_;
  const uint16_t server_port_;
  const Spoil spoil_;
  const int at_;
  Descriptor listener_;
  uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::atomic<int> answers_{0};
  std::atomic<bool> spoilt_{false};
  std::atomic<int> to_close_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace nezha::testing
