#include "simulation/fabric/fake_fabric.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "simulation/fabric/fake_objects.h"

namespace nezha::simulation {

namespace {

enum class Phase : uint8_t { message, unread, begins, ends, twin, report };

struct Item {
  Phase phase = Phase::message;
  int from = 0;
  int to = 0;
  Nanoseconds due = 0;
  WriteTimes times;
  const std::byte* source = nullptr;
  size_t bytes = 0;
  uint64_t local = 0;        // the number of the source's registration; 0: none
  uint64_t address = 0;
  uint64_t key = 0;
  uint64_t word = 0;
  void* context = nullptr;   // of the operation; null: completed already
  int error = 0;             // of a report
  bool is_write = false;
  size_t lane = 0;           // of a message
  std::byte* target = nullptr;
  std::vector<std::byte> payload;
};

struct State {
  FabricNetwork* network = nullptr;
  std::map<int, FakePort*> ports;
  int last_port = 0;
  std::map<uint64_t, bool> registered;  // source registrations, by number
  uint64_t last_region = 0;
  std::vector<Item> items;  // in the order of their beginning
  std::string wrong;
};

State& state() {
  static State state;
  return state;
}

FakePort* port_at(int number) {
  const auto found = state().ports.find(number);
  return found == state().ports.end() ? nullptr : found->second;
}

void complete(FakePort& port, const FakeCompletion& completion) {
  port.queue->completions.push_back(completion);
  state().network->on_completion(port.number);
}

// The sender's end of an operation.
void settle(Item& item, int error) {
  FakePort* const from = port_at(item.from);
  if (item.context == nullptr || from == nullptr) return;
  --from->under_way;
  complete(*from, {item.context, item.is_write ? uint64_t{FI_WRITE | FI_RMA} : uint64_t{FI_SEND | FI_MSG},
                   item.bytes, 0, error});
  item.context = nullptr;
}

void report_refusal(Item& item, int error) {
  if (item.context == nullptr) return;
  const Nanoseconds at = state().network->refusal(item.from, item.to);
  if (at == kNever) return;
  Item report;
  report.phase = Phase::report;
  report.from = item.from;
  report.to = item.to;
  report.due = at;
  report.context = item.context;
  report.is_write = item.is_write;
  report.bytes = item.bytes;
  report.error = error;
  state().items.push_back(std::move(report));
}

void take_message(FakePort& to, std::vector<std::byte> message, size_t lane_index) {
  FakePort::Lane& lane = to.lanes[lane_index];
  if (lane.buffers.empty()) return lane.unexpected.push_back(std::move(message));
  const FakePort::Buffer buffer = lane.buffers.front();
  lane.buffers.pop_front();
  const bool fits = message.size() <= buffer.bytes;
  std::memcpy(buffer.at, message.data(), std::min(message.size(), buffer.bytes));
  complete(to, {buffer.context, FI_RECV | FI_MSG, message.size(), 0, fits ? 0 : FI_ETOOSMALL});
}

void end_write(Item& item, WriteEnd end, bool twin = false) {
  state().network->on_write_end(item.from, item.to, item.word, end, twin);
  if (twin || end == WriteEnd::unread) return;
  if (end == WriteEnd::landed) return settle(item, 0);
  report_refusal(item, end == WriteEnd::refused ? FI_EKEYREJECTED : FI_ECONNRESET);
}

// Null: the key does not allow it.
std::byte* target_of(const FakePort& to, const Item& item) {
  const auto found = to.domain->targets.find(item.key);
  if (found == to.domain->targets.end()) return nullptr;
  const FakeRegion& region = *found->second;
  const uint64_t begin = reinterpret_cast<uint64_t>(region.at);
  const bool inside = item.address >= begin && item.bytes <= region.bytes &&
                      item.address - begin <= region.bytes - item.bytes;
  return inside ? region.at + (item.address - begin) : nullptr;
}

// The next phase of a write; the item goes on with another time, or ends.
void advance(Item item) {
  FakePort* const to = port_at(item.to);
  switch (item.phase) {
    case Phase::message:
      if (to == nullptr) return report_refusal(item, FI_ECONNREFUSED);
      settle(item, 0);
      return take_message(*to, std::move(item.payload), item.lane);
    case Phase::report:
      return settle(item, item.error);
    case Phase::unread:
      if (port_at(item.from) == nullptr) return end_write(item, WriteEnd::unread);
      if (item.local != 0 && !state().registered[item.local]) {
        state().wrong = "a source was read after its registration was closed";
        return;
      }
      item.payload.assign(item.source, item.source + item.bytes);
      if (state().network->completes_early()) settle(item, 0);
      item.phase = Phase::begins;
      item.due = item.times.begin;
      break;
    case Phase::begins:
      if (to == nullptr) return end_write(item, WriteEnd::fenced);
      item.target = target_of(*to, item);
      if (item.target == nullptr) return end_write(item, WriteEnd::refused);
      std::memcpy(item.target, item.payload.data(), item.bytes / 2);
      item.phase = Phase::ends;
      item.due = item.times.end;
      break;
    case Phase::ends:
      if (to == nullptr) return end_write(item, WriteEnd::half_fenced);
      std::memcpy(item.target + item.bytes / 2, item.payload.data() + item.bytes / 2,
                  item.bytes - item.bytes / 2);
      complete(*to, {nullptr, FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA, item.bytes, item.word, 0});
      end_write(item, WriteEnd::landed);
      if (item.times.again == 0) return;
      item.phase = Phase::twin;
      item.due = item.times.again;
      break;
    case Phase::twin: {
      if (to == nullptr) return end_write(item, WriteEnd::fenced, true);
      std::byte* const target = target_of(*to, item);
      if (target == nullptr) return end_write(item, WriteEnd::refused, true);
      std::memcpy(target, item.payload.data(), item.bytes);
      return end_write(item, WriteEnd::landed, true);
    }
  }
  state().items.push_back(std::move(item));
}

bool is_of_network(const Item& item) {
  return item.phase != Phase::unread && item.phase != Phase::report;
}

Nanoseconds due_of(const Item& item) {
  if (!is_of_network(item)) return item.due;
  const Nanoseconds from = state().network->not_before(item.from, item.to);
  return from == kNever ? kNever : std::max(item.due, from);
}

}  // namespace

// ---------------------------------------------------------------------------------- what the test sees

FakeFabric& fake_fabric() {
  static FakeFabric fabric;
  return fabric;
}

int FakeFabric::port_of(const std::string& name) {
  int number = 0;
  std::memcpy(&number, name.data(), std::min(name.size(), sizeof(number)));
  return number;
}

void FakeFabric::use(FabricNetwork* network) {
  State& now = state();
  now.network = network;
  now.items.clear();
  now.registered.clear();
  now.wrong.clear();
  if (network != nullptr) now.last_port = 0;
}

Nanoseconds FakeFabric::next_due() const {
  Nanoseconds next = kNever;
  for (const Item& item : state().items) next = std::min(next, due_of(item));
  return next;
}

bool FakeFabric::deliver_one() {
  State& now = state();
  std::vector<size_t> ready;
  for (size_t i = 0; i < now.items.size(); ++i) {
    if (due_of(now.items[i]) <= now.network->now()) ready.push_back(i);
  }
  if (ready.empty()) return false;
  size_t chosen = ready[now.network->draw() % ready.size()];
  // Messages keep their order.
  if (now.items[chosen].phase == Phase::message) {
    for (size_t i = 0; i < chosen; ++i) {
      const Item& other = now.items[i];
      if (other.phase == Phase::message && other.from == now.items[chosen].from &&
          other.to == now.items[chosen].to) {
        chosen = i;
      }
    }
  }
  Item item = std::move(now.items[chosen]);
  now.items.erase(now.items.begin() + static_cast<std::ptrdiff_t>(chosen));
  advance(std::move(item));
  return true;
}

bool FakeFabric::has_completions(int port) const {
  const FakePort* const found = port_at(port);
  return found != nullptr && !found->queue->completions.empty();
}

const std::string& FakeFabric::wrong() const { return state().wrong; }

// -------------------------------------------------------------------------------- what libfabric calls

int FakePort::open(FakePort* port) {
  port->number = ++state().last_port;
  state().ports[port->number] = port;
  return port->number;
}

void FakePort::close(FakePort* port) { state().ports.erase(port->number); }

uint64_t FakeRegion::enlist() {
  const uint64_t number = ++state().last_region;
  state().registered[number] = true;
  return number;
}

void FakeRegion::strike(uint64_t number) { state().registered[number] = false; }

bool FakePort::needs_local() { return state().network != nullptr && state().network->needs_local(); }

ssize_t FakePort::receive(FakePort& port, const Buffer& buffer, size_t lane_index) {
  Lane& lane = port.lanes[lane_index];
  lane.buffers.push_back(buffer);
  if (lane.unexpected.empty()) return 0;
  std::vector<std::byte> message = std::move(lane.unexpected.front());
  lane.unexpected.pop_front();
  take_message(port, std::move(message), lane_index);
  return 0;
}

ssize_t FakePort::send(FakePort& port, int to, std::span<const std::byte> message, size_t lane,
                       void* context) {
  FabricNetwork& network = *state().network;
  if (port.under_way >= network.depth()) return -FI_EAGAIN;
  ++port.under_way;
  Item item;
  item.from = port.number;
  item.to = to;
  item.bytes = message.size();
  item.lane = lane;
  item.context = context;
  item.payload.assign(message.begin(), message.end());
  item.due = network.send(port.number, to, item.payload);
  if (network.completes_early()) settle(item, 0);
  state().items.push_back(std::move(item));
  return 0;
}

ssize_t FakePort::write(FakePort& port, const FakeWrite& write) {
  FabricNetwork& network = *state().network;
  if (port.under_way >= network.depth()) return -FI_EAGAIN;
  ++port.under_way;
  Item item;
  item.phase = Phase::unread;
  item.is_write = true;
  item.from = port.number;
  item.to = write.to;
  item.source = write.at;
  item.bytes = write.bytes;
  item.local = write.local;
  item.address = write.address;
  item.key = write.key;
  item.word = write.word;
  item.context = write.context;
  item.times = network.write(port.number, write.to, write.bytes, write.word);
  item.due = item.times.read;
  state().items.push_back(std::move(item));
  return 0;
}

}  // namespace nezha::simulation
