#include "engine/messages/matcher.h"

#include <initializer_list>

namespace nezha::engine {

Matcher::Arrivals::const_iterator Matcher::first_arrival(int source, uint32_t tag) const {
  if (tag != kAnyTag) {
    if (source == kAnySource) return first(arrivals_, kAnySource, tag);
    const auto found = first(messages_, source, tag);
    if (found == messages_.end()) return arrivals_.end();
    return arrivals_.find({tag, kAnySource, found->first.order});
  }
  auto oldest = arrivals_.end();
  for (auto each = arrivals_.begin(); each != arrivals_.end(); ++each) {
    if (source != kAnySource && each->second.source != source) continue;
    if (oldest == arrivals_.end() || each->first.order < oldest->first.order) oldest = each;
  }
  return oldest;
}

std::optional<Matcher::Waiting> Matcher::find_message(int source, uint32_t tag) const {
  const auto found = first_arrival(source, tag);
  return found == arrivals_.end() ? std::nullopt : std::optional(Waiting(found));
}

void Matcher::take_message(Waiting found) {
  const auto& [key, arrival] = *found.at_;
  messages_.erase({key.tag, arrival.source, key.order});
  arrivals_.erase(found.at_);
}

void Matcher::add_receive(const Receive& receive) {
  receives_.emplace(Key{wire::tag_of(receive.op), receive.source, next_order_}, receive);
  ++next_order_;
}

std::optional<Receive> Matcher::take_receive(int source, uint32_t tag) {
  auto found = receives_.end();
  for (const auto& each : {first(receives_, source, tag), first(receives_, kAnySource, tag),
                           first(receives_, source, kAnyTag), first(receives_, kAnySource, kAnyTag)}) {
    if (each == receives_.end()) continue;
    if (found == receives_.end() || each->first.order < found->first.order) found = each;
  }
  if (found == receives_.end()) return std::nullopt;
  const Receive taken = found->second;
  receives_.erase(found);
  return taken;
}

void Matcher::add_message(int source, uint32_t tag, uint32_t message) {
  const auto added = messages_.emplace(Key{tag, source, next_order_}, message).first;
  try {
    arrivals_.emplace(Key{tag, kAnySource, next_order_}, Arrival{source, message});
  } catch (...) {
    messages_.erase(added);
    throw;
  }
  ++next_order_;
}

void Matcher::clear() {
  receives_.clear();
  messages_.clear();
  arrivals_.clear();
}

}  // namespace nezha::engine
