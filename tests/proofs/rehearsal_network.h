// RehearsalNetwork: the messages of a rehearsal on their way, with everything that may happen to them:
// they wait for credit, overtake each other, are sent again from the live buffer, and arrive twice.
//
// Contract: one owner, one thread. Everything handed to the constructor must outlive it. Message ids
// count from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "proof/links.h"
#include "proofs/rehearsal.h"
#include "proofs/rehearsal_memory.h"

namespace nezha::schedule {

// What a seed decides.
class Rng {
 public:
  explicit Rng(uint64_t seed) : random_(seed) {}

  size_t pick(size_t count) { return random_() % count; }
  bool chance(double probability) {
    return static_cast<double>(random_() >> 11) < probability * 0x1p53;
  }
  std::mt19937_64& generator() { return random_; }

 private:
  std::mt19937_64 random_;
};

struct Message {
  uint32_t chunk = 0;
  Place source;
  Place target;
  double size = 0;  // in chunks
  std::optional<Payload> copy;
  bool delivered = false;
};

struct Arrival {
  uint32_t message = 0;
  Payload payload;
  bool is_first = true;
};

class RehearsalNetwork {
 public:
  RehearsalNetwork(std::span<const SliceLinks> slices, const RehearsalOptions& options,
                   RehearsalMemory& memory, Rng& rng);

  // A send: takes a private copy if the step asks for it, and leaves when there is credit.
  void send(uint32_t chunk, const Place& source);

  const Message& message(uint32_t id) const { return messages_[id]; }
  size_t flights() const { return flights_.size(); }
  uint32_t message_of(size_t flight) const { return flights_[flight].message; }
  // Lets a flight arrive; nothing when it was sent once more instead, or dropped as a duplicate.
  std::optional<Arrival> fly(size_t flight);

  // The receiver has reduced or landed it: its credit comes back, and waiting messages leave.
  void return_credit(uint32_t id);
  // Scratch that holds a message until it is reduced; false when the pair holds more than its credit.
  bool fill_scratch(uint32_t id);
  void empty_scratch(uint32_t id) { pair(messages_[id]).scratch -= messages_[id].size; }

 private:
  // One attempt to carry a message; without a snapshot it reads the live source when it arrives.
  struct Flight {
    uint32_t message = 0;
    std::optional<Payload> snapshot;
  };

  struct Pair {
    std::vector<uint32_t> queue;  // messages without credit
    double credit_used = 0;
    double scratch = 0;
  };

  Pair& pair(const Message& message);
  void post(Pair& pair);
  void launch(uint32_t message);
  Payload read(const Message& message);

  const std::span<const SliceLinks> slices_;
  const RehearsalOptions& options_;
  RehearsalMemory& memory_;
  Rng& rng_;
  std::vector<Pair> pairs_;  // [source x world size + target]
  std::vector<Message> messages_;
  std::vector<Flight> flights_;
};

// Removes one item; the order of the rest does not matter.
template <class T>
T take(std::vector<T>& items, size_t index) {
  T item = std::move(items[index]);
  if (index + 1 < items.size()) items[index] = std::move(items.back());
  items.pop_back();
  return item;
}

}  // namespace nezha::schedule
