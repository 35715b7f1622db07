// FakeFabric: a provider of one-sided writes behind libfabric's own interface, in one thread and on
// somebody else's clock. The library that ships (modules/fabric) finds it in the place of libfabric,
// because it is built with that library's name and is there before the real one is asked for.
//
// Contract
//   Owner    itself, one for the process; `use` says whose network it serves. One thread.
//   Writes   are read at the sender, land in two halves at the receiver, and are told there: each at a
//            time of its own, in any order among each other and with messages, twice where the network
//            says so. A write whose bytes were read goes on whatever becomes of its sender.
//   Keys     are looked at when a write begins to land, and not again (so do `net` and `tcp` of
//            libfabric).
//   Fence    a closed port sends and takes nothing, from that moment on. Nothing else stops a write.
//   Messages of one direction arrive in order. What goes to a closed port is lost; its sender may hear
//            of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"

#define NEZHA_FAKE_FABRIC __attribute__((visibility("default")))

namespace nezha::simulation {

struct WriteTimes {
  Nanoseconds read = 0;   // its bytes leave the sender's memory
  Nanoseconds begin = 0;  // the first half lands
  Nanoseconds end = 0;    // the second half lands, and the receiver is told
  Nanoseconds again = 0;  // it all lands once more; 0: it does not
};

// Which of a write's ends came about.
enum class WriteEnd : uint8_t {
  landed,
  unread,      // the sender's port was closed before its bytes were read
  fenced,      // the receiver's port was closed before it began to land
  half_fenced, // or in the middle of it
  refused,     // its key was no longer known
};

// What decides about times, and hears what happens. Ports are told by their numbers.
class FabricNetwork {
 public:
  virtual ~FabricNetwork() = default;
  virtual Nanoseconds now() const = 0;
  virtual uint64_t draw() = 0;
  // Sources have to be registered; how much a port has under way at most; whether local completions come
  // before the data has arrived.
  virtual bool needs_local() const = 0;
  virtual size_t depth() const = 0;
  virtual bool completes_early() const = 0;
  // When a message arrives: never before an older one of its direction.
  virtual Nanoseconds send(int from, int to, std::span<const std::byte> message) = 0;
  virtual WriteTimes write(int from, int to, size_t bytes, uint64_t word) = 0;
  // When the sender hears that nobody was there; kNever: not at all.
  virtual Nanoseconds refusal(int from, int to) = 0;
  // Before that nothing arrives; kNever: the way is closed.
  virtual Nanoseconds not_before(int from, int to) = 0;
  // Something waits to be reaped at the port.
  virtual void on_completion(int port) = 0;
  virtual void on_write_end(int from, int to, uint64_t word, WriteEnd end, bool twin) = 0;
};

class FakeFabric;
NEZHA_FAKE_FABRIC FakeFabric& fake_fabric();

class NEZHA_FAKE_FABRIC FakeFabric {
 public:
  static constexpr const char* kProvider = "sim";
  // The number of a port by its name (FabricPort::name).
  static int port_of(const std::string& name);

  // Before the first rail is opened, and with null after the last port is closed.
  void use(FabricNetwork* network);
  Nanoseconds next_due() const;
  // One thing that is due, any of them; false when nothing is.
  bool deliver_one();
  // Something waits to be reaped.
  bool has_completions(int port) const;
  // "" or how the library was used wrongly.
  const std::string& wrong() const;
};

}  // namespace nezha::simulation
