#include "proofs/rehearsal_network.h"

#include <utility>

namespace nezha::schedule {
namespace {

constexpr double kRounding = 1e-9;  // credit is a sum of fractions

}  // namespace

RehearsalNetwork::RehearsalNetwork(std::span<const SliceLinks> slices,
                                   const RehearsalOptions& options, RehearsalMemory& memory,
                                   Rng& rng)
    : slices_(slices), options_(options), memory_(memory), rng_(rng),
      pairs_(slices[0].ranks.size() * slices[0].ranks.size()) {}

RehearsalNetwork::Pair& RehearsalNetwork::pair(const Message& message) {
  return pairs_[message.source.rank * slices_[0].world_size() + message.target.rank];
}

void RehearsalNetwork::send(uint32_t chunk, const Place& source) {
  const SliceLinks& links = slices_[chunk % slices_.size()];
  const Step& step = links.step(source);
  Message message;
  message.chunk = chunk;
  message.source = source;
  message.target = links.other_end[source.rank][source.step];
  message.size = static_cast<double>(step.part_end - step.part_begin) / links.parts();
  if (step.copy_source) message.copy = read(message);
  pair(message).queue.push_back(static_cast<uint32_t>(messages_.size()));
  messages_.push_back(std::move(message));
  post(pair(messages_.back()));
}

// Lets queued messages leave, in any order, while the credit lasts.
void RehearsalNetwork::post(Pair& pair) {
  while (!pair.queue.empty()) {
    const size_t index = rng_.pick(pair.queue.size());
    const double size = messages_[pair.queue[index]].size;
    if (pair.credit_used + size > options_.credit + kRounding) return;
    pair.credit_used += size;
    launch(take(pair.queue, index));
  }
}

void RehearsalNetwork::launch(uint32_t message) {
  Flight flight{message, {}};
  if (rng_.chance(0.5)) flight.snapshot = read(messages_[message]);
  flights_.push_back(std::move(flight));
}

Payload RehearsalNetwork::read(const Message& message) {
  if (message.copy) return *message.copy;
  const SliceLinks& links = slices_[message.chunk % slices_.size()];
  return memory_.read(message.source.rank, message.chunk, links.step(message.source));
}

std::optional<Arrival> RehearsalNetwork::fly(size_t flight) {
  const uint32_t id = flights_[flight].message;
  Message& message = messages_[id];
  if (!message.delivered && rng_.chance(options_.resend_chance)) {
    launch(id);
    return std::nullopt;
  }
  Flight landing = take(flights_, flight);
  if (message.delivered && options_.rules.drops_duplicates) return std::nullopt;
  Payload payload = landing.snapshot ? std::move(*landing.snapshot) : read(message);
  return Arrival{id, std::move(payload), !std::exchange(message.delivered, true)};
}

void RehearsalNetwork::return_credit(uint32_t id) {
  Pair& of = pair(messages_[id]);
  of.credit_used -= messages_[id].size;
  post(of);
}

bool RehearsalNetwork::fill_scratch(uint32_t id) {
  Pair& of = pair(messages_[id]);
  of.scratch += messages_[id].size;
  return of.scratch <= options_.credit + kRounding;
}

}  // namespace nezha::schedule
