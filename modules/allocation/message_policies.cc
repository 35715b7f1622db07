#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <string>
#include <utility>

#include "allocation/message_policy.h"
#include "allocation/static_rails.h"
#include "rails/policy.h"

namespace nezha::rails {
namespace {

using Rails = std::span<const MessageRail>;

class Modulo final : public MessagePolicy {
 public:
  std::string_view name() const override { return "modulo"; }
  MessageWish wish(const MessageEnds& ends, Rails rails) override {
    const uint32_t rail = static_cast<uint32_t>(ends.receiver) % static_cast<uint32_t>(rails.size());
    return {1u << rail, rail};
  }
};

class AtRandom final : public MessagePolicy {
 public:
  explicit AtRandom(const MessagePolicyOptions& options) : random_(options.seed) {}
  std::string_view name() const override { return "random"; }
  MessageWish wish(const MessageEnds&, Rails rails) override {
    const auto rail = static_cast<uint32_t>(random_() % rails.size());
    return {1u << rail, rail};
  }

 private:
  std::mt19937_64 random_;
};

// Gives a rank's rails in turn.
class Turns {
 public:
  uint32_t next(Rails rails) { return turn_++ % static_cast<uint32_t>(rails.size()); }

 private:
  uint32_t turn_ = 0;
};

class MessageRoundRobin final : public MessagePolicy {
 public:
  std::string_view name() const override { return "round_robin"; }
  MessageWish wish(const MessageEnds&, Rails rails) override {
    const uint32_t rail = turns_.next(rails);
    return {1u << rail, rail};
  }

 private:
  Turns turns_;
};

class StaticDirections final : public MessagePolicy {
 public:
  explicit StaticDirections(const MessagePolicyOptions& options)
      : rank_(static_cast<size_t>(options.rank)), sends_(assign_static_rails(options.world_size)) {}
  std::string_view name() const override { return "static"; }
  MessageWish wish(const MessageEnds& ends, Rails rails) override {
    const uint32_t receiver_sends = sends_[static_cast<size_t>(ends.receiver)];
    MessageWish wish{0, turns_.next(rails)};
    for (uint32_t rail = 0; rail < rails.size(); ++rail) {
      const int there = rails[rail].peer_rail;
      const bool receives = there >= 0 && (receiver_sends >> there & 1) == 0;
      if ((sends_[rank_] >> rail & 1) != 0 && receives) wish.rails |= 1u << rail;
    }
    return wish;
  }

 private:
  const size_t rank_;
  const std::vector<uint32_t> sends_;
  Turns turns_;
};

class LocalDynamic final : public MessagePolicy {
 public:
  explicit LocalDynamic(bool stripes) : stripes_(stripes) {}
  std::string_view name() const override { return stripes_ ? "local_dynamic_striped" : "local_dynamic"; }
  MessageWish wish(const MessageEnds&, Rails rails) override {
    return {(1u << rails.size()) - 1, turns_.next(rails)};
  }
  bool avoids_receiving() const override { return true; }
  bool stripes() const override { return stripes_; }

 private:
  const bool stripes_;
  Turns turns_;
};

// LocalDynamic that reserves both ends of a rail for messages of at least so many bytes.
class Reserving final : public MessagePolicy {
 public:
  Reserving(std::string_view name, uint64_t least) : name_(name), least_(least) {}
  std::string_view name() const override { return name_; }
  MessageWish wish(const MessageEnds& ends, Rails rails) override { return any_.wish(ends, rails); }
  bool avoids_receiving() const override { return any_.avoids_receiving(); }
  bool reserves(const MessageEnds& ends) const override { return ends.bytes >= least_; }

 private:
  const std::string_view name_;
  const uint64_t least_;
  LocalDynamic any_{false};
};

// From this length on `hybrid` reserves, as in the simulation (docs/rail_study.md).
constexpr uint64_t kHybridBytes = 8 * 1024;

using Made = Result<std::unique_ptr<MessagePolicy>>;

template <class Kind, class... Arguments>
Made make(Arguments&&... arguments) {
  return std::unique_ptr<MessagePolicy>(std::make_unique<Kind>(std::forward<Arguments>(arguments)...));
}

Made make_static(const MessagePolicyOptions& options) {
  const uint32_t needed = fewest_static_rails(options.world_size);
  if (needed <= options.rails) return make<StaticDirections>(options);
  const std::string most = needed > kRailsMax ? "more than " + std::to_string(kRailsMax)
                                              : std::to_string(needed);
  return error(Code::invalid_argument, "rank %d: message_policy=static needs %s rails for %d ranks, so "
               "that a rail only sends or only receives and all ranks reach each other, and this rank "
               "has %u; choose another policy (`nezha plan rails` shows the assignment)", options.rank,
               most.c_str(), options.world_size, options.rails);
}

struct MessageEntry {
  std::string_view name;
  Made (*make)(const MessagePolicyOptions& options);
};

constexpr std::array kMessageEntries = {
    MessageEntry{"pull",
                 [](const MessagePolicyOptions&) -> Made { return std::unique_ptr<MessagePolicy>(); }},
    MessageEntry{"modulo", [](const MessagePolicyOptions&) { return make<Modulo>(); }},
    MessageEntry{"round_robin", [](const MessagePolicyOptions&) { return make<MessageRoundRobin>(); }},
    MessageEntry{"random", [](const MessagePolicyOptions& options) { return make<AtRandom>(options); }},
    MessageEntry{"static", make_static},
    MessageEntry{"local_dynamic", [](const MessagePolicyOptions&) { return make<LocalDynamic>(false); }},
    MessageEntry{"local_dynamic_striped",
                 [](const MessagePolicyOptions&) { return make<LocalDynamic>(true); }},
    MessageEntry{"dynamic",
                 [](const MessagePolicyOptions&) { return make<Reserving>("dynamic", uint64_t{0}); }},
    MessageEntry{"hybrid",
                 [](const MessagePolicyOptions&) { return make<Reserving>("hybrid", kHybridBytes); }},
};

constexpr auto kMessagePolicyNames = [] {
  std::array<std::string_view, kMessageEntries.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kMessageEntries[i].name;
  return names;
}();

}  // namespace

uint32_t take_rails(const MessagePolicy& policy, const MessageWish& wish, const MessageEnds& ends,
                    std::span<const MessageRail> rails, bool impatient) {
  uint32_t up = 0;
  uint32_t free = 0;
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    const bool busy = rails[rail].sending ||
                      (policy.avoids_receiving() && !impatient && rails[rail].receiving);
    if (rails[rail].up) up |= 1u << rail;
    if (rails[rail].up && !busy) free |= 1u << rail;
  }
  free &= (wish.rails & up) != 0 ? wish.rails : up;
  const uint32_t most = policy.stripes() ? std::max(ends.parts, 1u) : 1;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < rails.size() && static_cast<uint32_t>(std::popcount(taken)) < most; ++i) {
    const uint32_t rail = (wish.first + i) % static_cast<uint32_t>(rails.size());
    taken |= free & 1u << rail;
  }
  return taken;
}

Result<std::unique_ptr<MessagePolicy>> make_message_policy(std::string_view name,
                                                           const MessagePolicyOptions& options) {
  std::string known;
  for (const MessageEntry& entry : kMessageEntries) {
    if (entry.name == name) return entry.make(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return error(Code::invalid_argument, "unknown message policy '%.*s'; choose one of %s",
               static_cast<int>(std::min<size_t>(name.size(), 64)), name.data(), known.c_str());
}

std::span<const std::string_view> message_policy_names() { return kMessagePolicyNames; }

}  // namespace nezha::rails
