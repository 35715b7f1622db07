// Matcher: which receive takes which message: the posted receives and the messages that wait for one.
//
// Contract
//   Owner    a Mailbox, progress lock held.
//   Order    messages are added in the order in which their source sent them. A receive takes the
//            first message of its source (of any source: the first that was added) with its tag; a
//            message goes to the receive that was posted first among those that would take it.
//   Cost     logarithmic in what waits; a receive of any tag looks at all messages that wait.
//   Errors   throws std::bad_alloc, and nothing has changed then.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>

#include "base/clock.h"
#include "engine/common/message.h"
#include "engine/common/work.h"
#include "wire/frame.h"

namespace nezha::engine {

// A receive that was posted: where the message goes and what it must be.
struct Receive {
  int source = kAnySource;  // global rank
  std::byte* data = nullptr;
  wire::OpDescriptor op;
  Nanoseconds deadline = kNever;
  Work* work = nullptr;
  bool stands = false;      // MessageRequest::stands
};

class Matcher {
  // Orders a map so that all entries of one source with one tag are together, oldest first.
  struct Key {
    uint32_t tag;
    int source;
    uint64_t order;
    auto operator<=>(const Key&) const = default;
  };
  struct Arrival {
    int source;
    uint32_t message;
  };
  using Arrivals = std::pmr::map<Key, Arrival>;

 public:
  explicit Matcher(std::pmr::memory_resource* memory)
      : receives_(memory), messages_(memory), arrivals_(memory) {}

  // A message that waits. Valid until it is taken or the matcher is cleared.
  class Waiting {
   public:
    uint32_t message() const { return at_->second.message; }  // as given to `add_message`

   private:
    friend class Matcher;
    explicit Waiting(Arrivals::const_iterator at) : at_(at) {}
    Arrivals::const_iterator at_;
  };

  // The message that a new receive would take.
  std::optional<Waiting> find_message(int source, uint32_t tag) const;
  void take_message(Waiting found);
  // The receive waits, because no message for it is there.
  void add_receive(const Receive& receive);
  // Removes and returns the receive that takes a new message.
  std::optional<Receive> take_receive(int source, uint32_t tag);
  // The message waits, because no receive for it is posted.
  void add_message(int source, uint32_t tag, uint32_t message);

  template <class Visit>
  void visit_receives(Visit visit) const {
    for (const auto& [key, receive] : receives_) visit(receive);
  }
  void clear();

 private:
  Arrivals::const_iterator first_arrival(int source, uint32_t tag) const;
  template <class Map>
  static auto first(Map& map, int source, uint32_t tag) {
    const auto found = map.lower_bound({tag, source, 0});
    const bool hit = found != map.end() && found->first.tag == tag && found->first.source == source;
    return hit ? found : map.end();
  }

  uint64_t next_order_ = 0;
  std::pmr::map<Key, Receive> receives_;
  std::pmr::map<Key, uint32_t> messages_;  // by source
  Arrivals arrivals_;                      // the same messages, whatever their source
};

}  // namespace nezha::engine
