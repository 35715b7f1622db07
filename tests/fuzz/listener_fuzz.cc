// The port of an aggregation node, and callers without a job's key who send any bytes in any pieces: in
// place of a ticket, behind one that they overheard, and in place of the proof. Nobody is let in, nobody
// is told more than a challenge and a refusal, and nothing is kept of who has gone.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "aggregation/server/listener.h"
#include "base/check.h"
#include "fuzz/fuzz.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::aggregation {
namespace {

constexpr uint64_t kJob = 7;
constexpr size_t kMessageBytes = 64;
constexpr size_t kCallers = 3;

wire::Secret node_key() { return wire::secret_from_text("of the node"); }

class Nobody final : public Admission {
 public:
  wire::Refusal may_authenticate(const Ticket& ticket, transport::HandshakeIdentity* identity) override {
    NEZHA_CHECK(ticket.job == kJob && ticket.ranks == 2);  // the overheard ones; nobody makes others
    if (ticket.nonce == 2) return wire::Refusal::replayed;
    identity->rank = 2;
    identity->world_size = 3;
    identity->job = ticket.run;
    identity->secret = job_key_of(node_key(), ticket.job);
    identity->rail_counts.assign(3, 1);
    identity->opener = &transport::tcp_opener();
    return wire::Refusal::none;
  }
  wire::Refusal admit(const Ticket&, std::unique_ptr<transport::Handshake>&) override {
    NEZHA_CHECK(false);
    return wire::Refusal::bad_mac;
  }
};

class Client final : public progress::LoopClient {
 public:
  Listener* listener = nullptr;
  bool run(Nanoseconds now) override {
    if (listener != nullptr) listener->run(now);
    return false;
  }
  Nanoseconds next_wakeup() const override { return kNever; }
};

struct Place {
  Nobody nobody;
  Client client;
  sockaddr_in address{};
  std::unique_ptr<progress::Loop> loop;
  std::unique_ptr<Listener> listener;
};

Place& the_place() {
  static Place place;
  if (place.listener != nullptr) return place;
  Descriptor socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  place.address.sin_family = AF_INET;
  place.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(place.address);
  auto* const address = reinterpret_cast<sockaddr*>(&place.address);
  NEZHA_CHECK(bind(socket_fd.get(), address, length) == 0 && listen(socket_fd.get(), 16) == 0);
  NEZHA_CHECK(getsockname(socket_fd.get(), address, &length) == 0);
  auto loop = progress::Loop::create(system_clock(), 0);
  NEZHA_CHECK(loop.is_ok());
  place.loop = std::move(*loop);
  place.loop->set_client(&place.client);
  progress::Loop::Lock lock(*place.loop);
  auto listener = Listener::open(*place.loop, std::move(socket_fd), node_key(), "{}", place.nobody);
  NEZHA_CHECK(listener.is_ok());
  place.listener = std::move(*listener);
  place.client.listener = place.listener.get();
  return place;
}

class Caller {
 public:
  explicit Caller(const Place& place) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto* const there = reinterpret_cast<const sockaddr*>(&place.address);
    NEZHA_CHECK(connect(fd_.get(), there, sizeof(place.address)) == 0);
    // Many of them would leave no ports for the next.
    const linger at_once{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  void say(const void* bytes, size_t size) {
    (void)!send(fd_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // One that a listener on the network has heard.
  void show_ticket(uint64_t nonce) {
    const auto ticket = make_ticket({kJob, 1, 2, 1, 0, nonce}, job_key_of(node_key(), kJob));
    say(ticket.data(), ticket.size());
  }
  void say_hello() {
    wire::Hello hello;
    hello.job = 1;
    hello.world_size = 3;
    hello.acceptor_rank = 2;
    std::array<std::byte, kMessageBytes> bytes;
    wire::encode(hello, bytes);
    say(bytes.data(), bytes.size());
  }
  void hear() {
    std::array<char, 4096> bytes;
    for (ssize_t got; (got = recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;) {
      told_ += static_cast<size_t>(got);
    }
    NEZHA_CHECK(told_ <= 2 * kMessageBytes);
  }

 private:
  Descriptor fd_;
  size_t told_ = 0;
};

void check(const uint8_t* data, size_t size) {
  Place& place = the_place();
  progress::Loop::Lock lock(*place.loop);
  {
    std::array<std::unique_ptr<Caller>, kCallers> callers;
    for (auto& caller : callers) caller = std::make_unique<Caller>(place);
    lock.drive_once();
    // Pieces: who, and how many bytes; or what an honest rank begins with.
    while (size > 0) {
      const uint8_t control = *data++;
      --size;
      Caller& caller = *callers[control % kCallers];
      const size_t length = control / kCallers;
      if (length >= 80) {
        length % 3 == 2 ? caller.say_hello() : caller.show_ticket(1 + length % 3);
      } else {
        const size_t part = std::min(length, size);
        caller.say(data, part);
        data += part;
        size -= part;
      }
      lock.drive_once();
      caller.hear();
    }
  }
  for (int i = 0; i < 3; ++i) lock.drive_once();
  const ListenerCounters& counters = place.listener->counters();
  NEZHA_CHECK(counters.answered == 0 && counters.refused + counters.expired <= counters.accepted);
}

}  // namespace
}  // namespace nezha::aggregation

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nezha::aggregation::check(data, size);
  return 0;
}
