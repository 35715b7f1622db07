#include "simulation/sim_network.h"

#include <utility>

#include "transport/transport.h"

namespace nezha::simulation {

using transport::Connection;
using transport::FakeFrame;
using transport::FakeLink;
using transport::FakeMoment;

namespace {

constexpr size_t kCapacityFramesMin = 2;
constexpr size_t kCapacityFramesMax = 40;
// Retransmissions after a hole: not at once, and not much later.
constexpr Nanoseconds kAfterHoleMax = 30 * kMillisecond;
constexpr Nanoseconds kKernelAsksEvery = kSecond;  // transport/kernel_answers.h

}  // namespace

SimNetwork::SimNetwork(SimClock& clock, int ranks, int rails, uint64_t seed)
    : clock_(clock), ranks_(ranks), rails_(rails), random_(seed) {
  paths_.resize(static_cast<size_t>(ranks * ranks * rails));
  ports_.resize(static_cast<size_t>(ranks * rails));
}

size_t SimNetwork::index(const PathName& name) const {
  return static_cast<size_t>((name.low * ranks_ + name.high) * rails_ + name.rail);
}

std::vector<PathName> SimNetwork::all_paths() const {
  std::vector<PathName> names;
  for (int low = 0; low < ranks_; ++low) {
    for (int high = low + 1; high < ranks_; ++high) {
      for (int rail = 0; rail < rails_; ++rail) {
        const PathName name{low, high, rail};
        if (has_path(name)) names.push_back(name);
      }
    }
  }
  return names;
}

SimNetwork::Sides SimNetwork::connect(const PathName& name, int lane, uint32_t epoch,
                                      transport::ConnectionEvents& low,
                                      transport::ConnectionEvents& high) {
  auto named = std::make_unique<NamedLink>();
  const size_t capacity =
      kCapacityFramesMin + random_() % (kCapacityFramesMax - kCapacityFramesMin);
  named->link = FakeLink::create(capacity, this);
  named->link->id = static_cast<int>(links_.size());
  named->name = name;
  named->lane = lane;
  named->epoch = epoch;
  Sides sides;
  sides.link = named->link->id;
  sides.low = named->link->connect(0, low, clock_.now());
  sides.high = named->link->connect(1, high, clock_.now());
  named->sides = {sides.low.get(), sides.high.get()};
  for (transport::Connection* connection : {sides.low.get(), sides.high.get()}) {
    identify(*connection, name, connection == sides.low.get() ? name.high : name.low, lane, epoch);
  }
  links_.push_back(std::move(named));
  return sides;
}

void SimNetwork::identify(transport::Connection& connection, const PathName& name, int peer, int lane,
                          uint32_t epoch) {
  const int self = name.low + name.high - peer;
  const int mine = own_rail(self, name.rail);
  transport::identify(connection, {peer, mine, own_rail(peer, name.rail), lane}, epoch,
                      static_cast<double>(path(name).delay) / kSecond);
}

void SimNetwork::open(int link, int side) {
  links_[static_cast<size_t>(link)]->open[static_cast<size_t>(side)] = true;
}

void SimNetwork::set_hole(const PathName& name, int to, bool hole, bool at_once) {
  Path& on = path(name);
  const auto side = static_cast<size_t>(to);
  if (on.hole[side] && !hole) {
    const Nanoseconds lasted = clock_.now() - on.closed_at;
    hold_up(name, side, at_once ? 0 : std::max(kAfterHoleMax, lasted));
    const auto after = static_cast<Nanoseconds>(random_() % kAfterHoleMax);
    on.written_not_before[side] = clock_.now() + (at_once ? 0 : after);
  }
  const bool was_open = on.is_open();
  on.hole[side] = hole;
  if (was_open && hole) on.closed_at = clock_.now();
  if (!was_open && on.is_open()) on.opened_at = clock_.now();
}

// As TCP, whose pauses double: the last one may be as long as the hole.
void SimNetwork::hold_up(const PathName& name, size_t side, Nanoseconds most) {
  for (const auto& named : links_) {
    if (named->link == nullptr || named->name != name) continue;
    const auto after = most == 0 ? 0 : static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(most));
    named->not_before[side] = clock_.now() + after;
  }
}

std::vector<Connection*> SimNetwork::connections(const PathName& name, int rank) {
  std::vector<Connection*> found;
  for (const auto& named : links_) {
    if (named->link == nullptr || named->name != name) continue;
    const int side = rank == name.low ? 0 : 1;
    if (named->link->is_open(side)) found.push_back(named->sides[static_cast<size_t>(side)]);
  }
  return found;
}

void SimNetwork::forget_ended(NamedLink& named) {
  if (!named.link->is_open(0) && !named.link->is_open(1)) named.link.reset();
}

// -------------------------------------------------------------------------- what links ask

void SimNetwork::admit(const FakeLink& link, int to, FakeFrame& frame) {
  NamedLink& named = *links_[static_cast<size_t>(link.id)];
  const Path& on = path(named.name);
  const auto side = static_cast<size_t>(to);
  const auto bytes = static_cast<double>(frame.header.size() + frame.payload.size());
  auto duration =
      static_cast<Nanoseconds>(bytes * on.slowness / on.bytes_per_s * kSecond) + 1;
  Nanoseconds& busy = named.busy_until[side];
  busy = std::max(busy, clock_.now()) + duration;
  const auto shake = static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(on.jitter + 1));
  Nanoseconds& last = named.last_due[side];
  const Nanoseconds travels = on.delay + on.extra_delay + shake;
  const Nanoseconds due = std::max(busy - duration + travels, last);
  frame.header_due = through_ports(named.name, to, bytes, travels, due, duration);
  last = frame.end_due = frame.header_due + duration;
  ++counters.frames;
  if (on.hole[side]) ++counters.held_up;
}

Nanoseconds SimNetwork::through_ports(const PathName& name, int to, double bytes, Nanoseconds travels,
                                      Nanoseconds due, Nanoseconds& duration) {
  Port& from = port(to == 0 ? name.high : name.low, name.rail);
  Port& into = port(to == 0 ? name.low : name.high, name.rail);
  // A port without a rate keeps nobody waiting.
  const auto pass = [&](double bytes_per_s, Nanoseconds& until, Nanoseconds begin) {
    if (bytes_per_s <= 0) return begin;
    const auto needed = static_cast<Nanoseconds>(bytes / bytes_per_s * kSecond);
    begin = std::max(begin, until);
    until = begin + needed;
    duration = std::max(duration, needed);
    return begin;
  };
  const Nanoseconds sent = pass(from.bytes_per_s, from.sends_until, due - travels);
  return pass(into.bytes_per_s, into.receives_until, sent + travels);
}

size_t SimNetwork::survivors(const FakeLink& link, int to, size_t under_way) {
  // What was held up is not sent again by who gave it up.
  if (of(link).not_before[static_cast<size_t>(to)] > clock_.now()) return 0;
  return random_() % (under_way + 1);
}

Nanoseconds SimNetwork::end_heard(const FakeLink& link, int to) {
  const NamedLink& named = of(link);
  const Path& on = path(named.name);
  return std::max(clock_.now() + on.delay + on.extra_delay,
                  named.last_due[static_cast<size_t>(to)]);
}

// A kernel that waits for no acknowledgement asks the other one each second.
Nanoseconds SimNetwork::host_heard(const FakeLink& link, int side) {
  const NamedLink& named = SimNetwork::of(link);
  const Path& on = path(named.name);
  const Nanoseconds now = clock_.now();
  const int to = 1 - side;
  const Nanoseconds open_until = on.is_open() ? now : on.closed_at;
  const Nanoseconds not_before = named.not_before[static_cast<size_t>(to)];
  const Nanoseconds received = link.received_at(to, not_before, open_until);
  if (link.under_way(to) > 0 || !on.is_open()) return received;
  const Nanoseconds asked = now - now % kKernelAsksEvery;
  return asked >= on.opened_at ? std::max(received, asked) : received;
}

void SimNetwork::tamper(const FakeLink& link, int to, std::deque<FakeFrame>& under_way) {
  if (!on_tamper) return;
  const PathName& name = of(link).name;
  on_tamper(to == 0 ? name.high : name.low, to == 0 ? name.low : name.high, under_way);
}

void SimNetwork::saw(const FakeLink& link, int to, const wire::FrameHeader& header,
                     FakeMoment moment) {
  if (!on_passing) return;
  const NamedLink& named = of(link);
  const PathName& name = named.name;
  on_passing({name, named.lane, named.epoch, to == 0 ? name.high : name.low,
              to == 0 ? name.low : name.high, header, moment});
}

}  // namespace nezha::simulation
