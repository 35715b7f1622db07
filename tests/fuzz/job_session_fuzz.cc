// A live session at an aggregation node, whose two members have proved themselves and then say anything:
// frames of every type, orders and rolls, contributions, half frames, in any order, and leave. What the
// node holds stays within what was charged, and everything is given back when the session is over.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "aggregation/protocol/registration.h"
#include "aggregation/server/job_session.h"
#include "base/check.h"
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "support/flat_tree.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::aggregation {
namespace {

constexpr uint32_t kRanks = 2;
constexpr int kNode = 2;  // its number in the job
constexpr uint64_t kComm = engine::CommNumber::kFirstParked + 1;
constexpr uint64_t kNodeBytes = 256 << 20;
constexpr uint64_t kJobBytes = 64 << 20;
constexpr size_t kMessageBytes = 64;

const Ticket kTicket{7, 1, kRanks, 1, 0, 0};

wire::Secret job_key() { return job_key_of(wire::secret_from_text("of the node"), kTicket.job); }

// Bytes of the input, then zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool is_over() const { return size_ == 0; }
  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::string bytes(size_t count) {
    const size_t part = std::min(count, size_);
    std::string text(reinterpret_cast<const char*>(data_), part);
    data_ += part;
    size_ -= part;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// The session is all there is in the loop.
class Client final : public progress::LoopClient {
 public:
  JobSession* session = nullptr;
  bool run(Nanoseconds now) override { return session != nullptr && session->run(now); }
  Nanoseconds next_wakeup() const override {
    return session == nullptr ? kNever : session->next_wakeup();
  }
  void out_of_memory() noexcept override { NEZHA_CHECK(false); }
};

struct Place {
  std::unique_ptr<progress::Loop> loop;
  Client client;
};

Place& the_place() {
  static Place place;
  if (place.loop == nullptr) {
    log::set_level(log::Level::error);
    auto loop = progress::Loop::create(system_clock(), 0);
    NEZHA_CHECK(loop.is_ok());
    place.loop = std::move(*loop);
    place.loop->set_client(&place.client);
  }
  return place;
}

// The fuzzer's end of a member's connection.
class Member {
 public:
  // Comes through the handshake, the test and the verdict, as an honest rank.
  Member(JobSession& session, progress::Loop::Lock& lock, uint32_t rank) : rank_(rank) {
    int ends[2];
    NEZHA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    fd_ = ends[0];
    transport::HandshakeIdentity identity;
    identity.rank = kNode;
    identity.world_size = kRanks + 1;
    identity.job = kTicket.run;
    identity.secret = job_key();
    identity.rail_counts.assign(kRanks + 1, 1);
    identity.opener = &transport::tcp_opener();
    auto handshake = std::make_unique<transport::Handshake>(identity, Descriptor(ends[1]), 0,
                                                       system_clock().now());
    wire::Hello hello;
    hello.job = kTicket.run;
    hello.world_size = kRanks + 1;
    hello.dialer_rank = rank;
    hello.acceptor_rank = kNode;
    hello.epoch = 1;
    std::array<std::byte, kMessageBytes> message;
    wire::encode(hello, message);
    say(message.data(), message.size());
    handshake->on_poll(POLLIN, 0);
    NEZHA_CHECK(recv(fd_, message.data(), message.size(), 0) == kMessageBytes);
    wire::Nonce theirs;
    NEZHA_CHECK(wire::verify_challenge(identity.secret, hello, message, &theirs) == wire::Refusal::none);
    wire::make_proof(identity.secret, hello, theirs, message);
    say(message.data(), message.size());
    handshake->on_poll(POLLIN, 0);
    NEZHA_CHECK(handshake->is_authenticated());
    session.admit(std::move(handshake));
    pass_test(lock);
  }
  ~Member() { leave(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void say(const void* bytes, size_t size) { (void)!send(fd_, bytes, size, MSG_NOSIGNAL); }
  void say(const std::string& text) { say(text.data(), text.size()); }
  void say(const wire::FrameHeader& header, const std::string& payload) {
    std::array<std::byte, wire::kHeaderBytes> bytes;
    wire::encode(header, bytes);
    say(bytes.data(), bytes.size());
    say(payload);
  }
  // A message at this member's channel, as its engine would send it.
  void ask(uint32_t tag, const std::string& text) {
    wire::FrameHeader header;
    header.comm = registration_comm(rank_);
    header.op_seq = asked_++;
    header.op.collective = Collective::send_recv;
    header.op.dtype = Dtype::uint8;
    header.op.count = text.size();
    header.op.plan = tag;
    header.length = static_cast<uint32_t>(text.size());
    say(header, text);
  }
  void leave() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void hear() {
    std::array<char, 65536> bytes;
    while (fd_ >= 0 && recv(fd_, bytes.data(), bytes.size(), 0) > 0) {}
  }

 private:
  void pass_test(progress::Loop::Lock& lock) {
    constexpr size_t kTestBytes = 8 * 64 + 48 * 1024;  // transport/tcp/tcp_echo.h
    say(std::string(kTestBytes, '\0'));
    std::array<char, 4096> bytes;
    for (size_t heard = 0; heard < kTestBytes; lock.drive_once()) {
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      heard += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    std::string verdict("NZV1\1\1", 6);
    verdict.resize(16);
    say(verdict);
    lock.drive_once();
    hear();
  }

  const uint32_t rank_;
  int fd_ = -1;
  uint64_t asked_ = 0;
};

uint64_t some_comm(uint8_t choice) {
  constexpr std::array<uint64_t, 6> kComms = {kComm, registration_comm(0), registration_comm(1),
                                              kComm + 1, 0, UINT64_MAX};
  return kComms[choice % kComms.size()];
}

// A sound header with any numbers in it; the payload is as long as it says, or not.
void say_frame(Member& member, Input& input) {
  wire::FrameHeader header;
  header.type = static_cast<wire::FrameType>(1 + input.byte() % 8);
  header.flags = input.byte();
  header.comm = some_comm(input.byte());
  header.stage = input.byte() % 5;
  header.slot = input.byte() % 3;
  header.chunk = input.byte();
  if (header.chunk > 250) header.chunk = 1u << (header.chunk - 240);
  header.op_seq = input.byte();
  header.op.collective = static_cast<Collective>(input.byte() % kCollectiveCount);
  header.op.dtype = static_cast<Dtype>(input.byte() % 6);
  header.op.algorithm = static_cast<Algorithm>(input.byte() % kAlgorithmCount);
  header.op.count = uint64_t{input.byte()} << (input.byte() % 64);
  header.op.plan = input.byte() % 8;
  const uint8_t length = input.byte();
  header.length = length < 250 ? length : 1u << (length - 230);
  header.credit = input.byte();
  header.ack = input.byte() % 4;
  member.say(header, std::string(std::min<size_t>(header.length, 4096), '\x3F'));
}

void send_request(Member& member, Input& input) {
  const RegistrationRequest request{some_comm(input.byte()), input.byte() % 6u, input.byte() % 3u};
  member.ask(kRequestTag, encode(request));
  if (request.leaves()) return;
  MemberList list;
  for (uint32_t i = 0; i < request.members; ++i) {
    list.members.push_back(input.byte() % 4);
    list.parents.push_back(static_cast<int>(input.byte() % 5) - 1);
  }
  member.ask(kMemberListTag, encode(list));
}

// Both ranks and the node, as an honest rank asks for it.
void register_all(Member& member) {
  const schedule::AggregationTree tree = testing::flat_tree(kRanks);
  member.ask(kRequestTag, encode(RegistrationRequest{kComm, kRanks + 1, 1}));
  member.ask(kMemberListTag, encode(MemberList{{0, 1, kNode}, tree.parent}));
}

// What a rank gives to an operation of the communicator of both, under the plan that the node makes, too.
void contribute(Member& member, Input& input) {
  schedule::PlanRequest shape;
  shape.collective = static_cast<Collective>(input.byte() % kCollectiveCount);
  shape.dtype = Dtype::float32;
  shape.count = input.byte();
  shape.longest_block = shape.count / kRanks;
  shape.world_size = kRanks;
  shape.chunk_bytes_max = kAggregationChunkBytes;
  shape.credit_bytes = kAggregationCreditBytes;
  auto plan = schedule::make_aggregation_plan(shape);
  if (!plan) return;
  wire::FrameHeader header;
  header.comm = kComm;
  header.op_seq = input.byte() % 3;
  header.stage = input.byte() % 3;
  header.slot = input.byte() % 3;
  header.chunk = input.byte() % 2;
  header.op = {shape.collective, shape.dtype, ReduceOp::sum, plan->algorithm, 0, shape.count,
               plan->fingerprint()};
  header.length = static_cast<uint32_t>(shape.count * sizeof(float));
  member.say(header, std::string(header.length, '\x3F'));
}

void turn(Member& member, Input& input) {
  switch (input.byte() % 7) {
    case 0: return member.say(input.bytes(input.byte()));
    case 1:
    case 2: return say_frame(member, input);
    case 3: return send_request(member, input);
    case 4: return register_all(member);
    case 5: return contribute(member, input);
    case 6: return member.ask(input.byte(), input.bytes(input.byte()));
  }
}

void check_counters(const JobSession& session, const Budget& node) {
  const JobSessionCounters counters = session.counters();
  NEZHA_CHECK(counters.charged_bytes <= kJobBytes && node.used() <= kJobBytes);
  NEZHA_CHECK(counters.connections <= kRanks && counters.ranks_up <= kRanks);
  // Over the limit by what one turn brings, and ended for it then.
  NEZHA_CHECK(counters.memory_bytes <= counters.charged_bytes + (8u << 20) || counters.over_budget == 1);
}

void check(Input input) {
  Place& place = the_place();
  progress::Loop::Lock lock(*place.loop);
  Budget node_budget(kNodeBytes);
  const JobSession::Node node{flat_topology("127.0.0.1", 7700), 0, {}, node_budget};
  {
    const auto job = std::make_shared<Job>(kTicket.job, kJobBytes, node_budget);
    auto session = JobSession::create(*place.loop, kTicket, job_key(), node, job);
    NEZHA_CHECK(session.is_ok());
    place.client.session = session->get();
    Member first(**session, lock, 0);
    Member second(**session, lock, 1);
    NEZHA_CHECK((*session)->counters().ranks_up == kRanks);
    while (!input.is_over() && !(*session)->is_over(system_clock().now())) {
      const uint8_t who = input.byte();
      Member& member = who % 2 == 0 ? first : second;
      who >= 252 ? member.leave() : turn(member, input);
      lock.drive_once();
      first.hear();
      second.hear();
      check_counters(**session, node_budget);
    }
    first.leave();
    second.leave();
    for (int i = 0; i < 4; ++i) lock.drive_once();
    NEZHA_CHECK((*session)->is_over(system_clock().now()));
    check_counters(**session, node_budget);
    place.client.session = nullptr;
  }
  NEZHA_CHECK(node_budget.used() == 0);
}

}  // namespace
}  // namespace nezha::aggregation

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nezha::aggregation::check({data, size});
  return 0;
}
