#include "simulation/sim_fabric.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/ofi_wire.h"
#include "fabric/ofi_message.h"
#include "wire/little_endian.h"

namespace nezha::simulation {

using transport::FabricPort;
using transport::FabricRail;
using transport::OfiWire;

namespace {

constexpr size_t kDepthMin = 6;
constexpr size_t kDepthMax = 60;
constexpr uint64_t kLateEvery = 5;    // one write of so many
constexpr uint64_t kTwiceEvery = 7;
constexpr uint64_t kUnheardEvery = 4; // refusals

}  // namespace

SimFabric::SimFabric(SimClock& clock, SimNetwork& network, int first_rail, bool late_writes,
                     LoopOf loop_of, uint64_t seed)
    : clock_(clock),
      network_(network),
      first_rail_(first_rail),
      late_writes_(late_writes),
      loop_of_(std::move(loop_of)),
      random_(seed),
      needs_local_(random_() % 2 == 0),
      completes_early_(random_() % 2 == 0),
      depth_(kDepthMin + random_() % (kDepthMax - kDepthMin)) {
  fake_fabric().use(this);
}

SimFabric::~SimFabric() {
  rails_.clear();
  fake_fabric().use(nullptr);
}

FabricRail& SimFabric::rail(int rank, int rail) {
  std::unique_ptr<FabricRail>& at = rails_[{rank, rail}];
  if (at == nullptr) {
    auto opened = FabricRail::open(FakeFabric::kProvider, "", "");
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    at = std::move(*opened);
  }
  return *at;
}

SimNetwork::Sides SimFabric::connect(const PathName& name, int lane, uint32_t epoch,
                                     transport::ConnectionEvents& low,
                                     transport::ConnectionEvents& high) {
  std::array<std::unique_ptr<FabricPort>, 2> ports;
  for (size_t side = 0; side < 2; ++side) {
    const int rank = side == 0 ? name.low : name.high;
    auto port = FabricPort::open(rail(rank, name.rail), OfiWire::kCompletions);
    EXPECT_TRUE(port.is_ok()) << port.status().to_string();
    ports[side] = std::move(*port);
    const int number = FakeFabric::port_of(ports[side]->name());
    Port& known = ports_[number];
    known = {name, lane, epoch, rank, side == 0 ? name.high : name.low, random_(), 0, 0, 0, {}};
    ports_of_rank_[rank].insert(number);
  }
  SimNetwork::Sides sides;
  const std::array<std::string, 2> names = {ports[0]->name(), ports[1]->name()};
  for (size_t side = 0; side < 2; ++side) {
    const Port& mine = ports_[FakeFabric::port_of(names[side])];
    const Port& other = ports_[FakeFabric::port_of(names[1 - side])];
    const auto to = ports[side]->insert(names[1 - side]);
    EXPECT_TRUE(to.is_ok());
    auto wire = std::make_unique<OfiWire>(loop_of_(mine.rank), std::move(ports[side]), to.value(),
                                          "fabric rail " + std::to_string(name.rail),
                                          transport::OfiTokens{mine.token, other.token});
    auto made = std::make_unique<transport::Connection>(side == 0 ? low : high, std::move(wire),
                                                        transport::ConnectionOptions{});
    network_.identify(*made, name, mine.peer, lane, epoch);
    (side == 0 ? sides.low : sides.high) = std::move(made);
  }
  uint32_t& newest = epochs_[{name, lane}];
  newest = std::max(newest, epoch);
  return sides;
}

void SimFabric::open(transport::Connection& connection) {
  const Status started = connection.start();
  EXPECT_TRUE(started.is_ok()) << started.to_string();
}

bool SimFabric::has_news(int rank) const {
  const auto found = ports_of_rank_.find(rank);
  return found != ports_of_rank_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [](int port) { return fake_fabric().has_completions(port); });
}

// ------------------------------------------------------------------------------ what the ports ask

SimFabric::Transfer SimFabric::transfer_of(int from, int to, const wire::FrameHeader& header) {
  return {from, to, header.comm, header.op.collective == Collective::send_recv, header.op_seq,
          header.chunk, header.stage, header.slot};
}

void SimFabric::saw(const Passing& at) {
  if (at.moment != transport::FakeMoment::landed || at.header.type != wire::FrameType::data) return;
  landed_.emplace(transfer_of(at.from, at.to, at.header), 0);
}

// Which transfer a write belongs to is said before it, by a message.
void SimFabric::note_message(Port& from, std::span<const std::byte> message) {
  transport::OfiPreamble preamble;
  if (!transport::decode(message, from.token, &preamble)) return;
  const bool announced = preamble.kind == transport::OfiMessageKind::announce;
  if (!announced && preamble.kind != transport::OfiMessageKind::frames) return;
  auto rest = message.subspan(transport::kPreambleBytes);
  while (!rest.empty()) {
    wire::FrameHeader header;
    if (wire::decode(rest.first<wire::kHeaderBytes>(), &header) != wire::HeaderError::none) return;
    rest = rest.subspan(wire::kHeaderBytes + (announced ? 0 : header.length));
    if (header.type != wire::FrameType::data) continue;
    const uint32_t number = from.frames++;
    if (announced) from.announced[number] = transfer_of(from.rank, from.peer, header);
  }
}

// When the last byte arrives of what leaves now.
Nanoseconds SimFabric::leave(Port& from, size_t bytes) {
  const Path& on = network_.path(from.name);
  const auto duration =
      static_cast<Nanoseconds>(static_cast<double>(bytes) * on.slowness / on.bytes_per_s * kSecond) + 1;
  from.busy_until = std::max(from.busy_until, clock_.now()) + duration;
  const auto shake = static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(on.jitter + 1));
  return from.busy_until + on.delay + on.extra_delay + shake;
}

Nanoseconds SimFabric::send(int from, int, std::span<const std::byte> message) {
  Port& port = ports_.at(from);
  note_message(port, message);
  port.last_due = std::max(leave(port, message.size()), port.last_due);
  return port.last_due;
}

WriteTimes SimFabric::write(int from, int, size_t bytes, uint64_t) {
  Port& port = ports_.at(from);
  WriteTimes times;
  const Nanoseconds now = clock_.now();
  times.end = leave(port, bytes);
  times.read = now + static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(times.end - now));
  ++counters_.writes;
  if (late_writes_ && random_() % kLateEvery == 0) {
    constexpr Nanoseconds kLate[] = {500 * kMicrosecond, 5 * kMillisecond, 40 * kMillisecond,
                                     400 * kMillisecond, kLateMax};
    ++counters_.delayed;
    times.end += static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(kLate[random_() % 5]));
  }
  const Nanoseconds left = times.end - times.read;
  // Between its halves there may be nearly all of the time.
  times.begin = times.read + static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(left));
  if (late_writes_ && random_() % kTwiceEvery == 0) {
    times.again = times.end + static_cast<Nanoseconds>(random_() % (20 * kMillisecond));
  }
  return times;
}

Nanoseconds SimFabric::refusal(int from, int) {
  if (random_() % kUnheardEvery == 0) return kNever;
  const Path& on = network_.path(ports_.at(from).name);
  return clock_.now() + on.delay + static_cast<Nanoseconds>(random_() % (20 * kMillisecond));
}

Nanoseconds SimFabric::not_before(int from, int) {
  const Port& port = ports_.at(from);
  const Path& on = network_.path(port.name);
  const size_t side = side_to(port);
  return on.hole[side] ? kNever : on.written_not_before[side];
}

void SimFabric::on_completion(int port) { on_news(ports_.at(port).rank); }

void SimFabric::on_write_end(int from, int to, uint64_t word, WriteEnd end, bool twin) {
  const Port& port = ports_.at(from);
  const auto number = static_cast<uint32_t>(word ^ port.token);
  const auto transfer = port.announced.find(number);
  const bool known = transfer != port.announced.end();
  if (twin) {
    ++(end == WriteEnd::landed ? counters_.twins_landed : counters_.twins_refused);
    return;
  }
  switch (end) {
    case WriteEnd::landed:
      ++counters_.landed;
      if (known) landed_.emplace(transfer->second, to);
      return;
    case WriteEnd::unread: ++counters_.unread; return;
    case WriteEnd::refused: ++counters_.refused; return;
    case WriteEnd::fenced: ++counters_.fenced; break;
    case WriteEnd::half_fenced: ++counters_.half_fenced; break;
  }
  const auto landed = known ? landed_.find(transfer->second) : landed_.end();
  if (landed != landed_.end() && landed->second != to) ++counters_.after_copy;
  if (epochs_[{port.name, port.lane}] > port.epoch) ++counters_.after_return;
}

}  // namespace nezha::simulation
