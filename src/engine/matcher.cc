#include "engine/matcher.h"

namespace nezha::engine {

std::optional<uint32_t> Matcher::take_message(int source, uint32_t tag) {
  Key key{};
  if (source == kAnySource) {
    const auto found = first(arrivals_, kAnySource, tag);
    if (found == arrivals_.end()) return std::nullopt;
    key = {tag, found->second.source, found->first.order};
  } else {
    const auto found = first(messages_, source, tag);
    if (found == messages_.end()) return std::nullopt;
    key = found->first;
  }
  const auto message = messages_.find(key);
  const uint32_t taken = message->second;
  messages_.erase(message);
  arrivals_.erase({tag, kAnySource, key.order});
  return taken;
}

void Matcher::add_receive(const Receive& receive) {
  receives_.emplace(Key{receive.op.plan, receive.source, next_order_}, receive);
  ++next_order_;
}

std::optional<Receive> Matcher::take_receive(int source, uint32_t tag) {
  auto found = first(receives_, source, tag);
  const auto any = first(receives_, kAnySource, tag);
  if (found == receives_.end() ||
      (any != receives_.end() && any->first.order < found->first.order)) {
    found = any;
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
