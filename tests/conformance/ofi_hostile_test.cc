// Live connections of libfabric's rails, and what is said to their ports: by a member that holds the
// tokens and speaks without this library, and by strangers that have found a port. Nothing crashes,
// hangs or stays, nothing lands but where it may, and an honest job beside it has exact results.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/connection_pair.h"
#include "support/loop_suite.h"
#include "support/sockets.h"
#include "support/world.h"
#include "fabric/fabric_device.h"
#include "fabric/fabric_port.h"
#include "fabric/fabric_rail.h"
#include "fabric/ofi_wire.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr const char* kRail = "127.2.0.1";
constexpr OfiTokens kTokens{0x1234567890ABCDEF, 0xFEDCBA0987654321};  // the honest side's
constexpr size_t kLongBytes = 200 * 1024;

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

std::string provider_here() {
  auto library = FabricLibrary::open();
  return library ? std::string(software_provider(**library)) : "";
}

// Memory with guards on both sides.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes + 2 * kGuardBytes, kGuard) {}
  std::byte* data() { return bytes_.data() + kGuardBytes; }
  bool is_sound() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuardBytes, is_guard) &&
           std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), is_guard);
  }

 private:
  static constexpr ptrdiff_t kGuardBytes = 256;
  static constexpr std::byte kGuard{0x5a};
  Bytes bytes_;
};

// The honest end: gives every payload that may be a place, refuses the others.
struct Place final : ConnectionEvents {
  std::deque<Guarded> places;
  int landed = 0;
  int downs = 0;
  int released = 0;
  int returned = 0;
  Status why;

  Landing on_frame(Connection&, const wire::FrameHeader& header) override {
    Landing landing;
    landing.refused = header.length > kLongBytes;
    if (landing.refused || header.op_seq % 4 == 3) return landing;
    landing.destination = places.emplace_back(header.length).data();
    return landing;
  }
  void on_landed(Connection&, const wire::FrameHeader&, const Landing&) override { ++landed; }
  void on_released(Connection&, WorkRequest&) override { ++released; }
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_room(Connection&) override {}
  void on_control(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status& status, bool) override {
    ++downs;
    why = status;
    for (; !unacknowledged.empty(); ++returned) unacknowledged.pop_front();
  }
};

// A port and nothing above it.
class Speaker {
 public:
  Speaker(FabricRail& rail, const std::string& to) : port_(std::move(*FabricPort::open(rail, 256))) {
    if (!to.empty()) insert(to);
    if (rail.needs_local()) {
      EXPECT_TRUE(rail.register_local(heard_[0].data(), sizeof(heard_), &region_).is_ok());
    }
    for (size_t i = 0; i < heard_.size(); ++i) listen(i);
  }
  ~Speaker() {
    port_->close();
    FabricRail::forget(region_);
  }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  void insert(const std::string& to) { to_ = port_->insert(to).value(); }
  std::string name() const { return port_->name(); }
  bool is_idle() const { return under_way_ == 0; }
  int sent() const { return sent_; }

  // False: the provider does not take it now.
  bool say(const Bytes& message, bool is_long) {
    FabricOperation& operation = next(message);
    const auto lane = is_long ? FabricPort::Lane::long_messages : FabricPort::Lane::short_messages;
    return post([&] {
      return port_->send(to_, said_.back().bytes.data(), message.size(), nullptr, operation, lane);
    });
  }
  void write(const Bytes& bytes, const RemoteMemory& target, uint64_t word) {
    FabricOperation& operation = next(bytes);
    post([&] {
      return port_->write(to_, said_.back().bytes.data(), bytes.size(), nullptr, target, word, operation);
    });
  }
  // Takes what came; the memory that was granted last.
  const RemoteMemory& listen_on() {
    std::array<FabricPort::Completion, 16> completions;
    const ssize_t count = port_->reap(completions.data(), completions.size());
    for (ssize_t i = 0; i < count; ++i) {
      const auto& each = completions[static_cast<size_t>(i)];
      if (each.operation == nullptr) continue;
      if (each.operation->kind != FabricOperation::Kind::receive) {
        --under_way_;
        sent_ += each.error == 0 ? 1 : 0;
        continue;
      }
      const auto& heard = heard_[each.operation->index];
      if (each.error == 0 && each.bytes == kGrantBytes) {
        granted_ = {wire::load_le<uint64_t>(&heard[kPreambleBytes + 8]),
                    wire::load_le<uint64_t>(&heard[kPreambleBytes + 16])};
      }
      listen(each.operation->index);
    }
    return granted_;
  }

 private:
  struct Said {
    Bytes bytes;
    FabricOperation operation;
  };

  FabricOperation& next(const Bytes& bytes) {
    Said& said = said_.emplace_back();
    said.bytes = bytes;
    said.bytes.resize(std::max<size_t>(bytes.size(), 1));
    said.operation.kind = FabricOperation::Kind::send;
    return said.operation;
  }
  template <class Post>
  bool post(Post post) {
    if (post() == 0) return ++under_way_, true;
    said_.pop_back();
    return false;
  }
  void listen(size_t index) {
    receives_[index].kind = FabricOperation::Kind::receive;
    receives_[index].index = static_cast<uint16_t>(index);
    port_->receive(heard_[index].data(), heard_[index].size(), region_, receives_[index]);
  }

  std::deque<Said> said_;
  std::array<std::array<std::byte, kShortBytes>, 16> heard_{};
  std::array<FabricOperation, 16> receives_;
  fid_mr* region_ = nullptr;
  std::unique_ptr<FabricPort> port_;
  fi_addr_t to_ = FI_ADDR_UNSPEC;
  RemoteMemory granted_;
  int under_way_ = 0;
  int sent_ = 0;
};

// What a member might say, and what it must not.
class Words {
 public:
  // A seed says nonsense now and then, or most of the time.
  explicit Words(uint64_t seed) : random_(seed), sense_(1 + seed % 40) {}

  size_t any(size_t below) { return random_() % below; }
  bool one_in(size_t number) { return any(number) == 0; }
  uint64_t number() {
    constexpr uint64_t kEdges[] = {0,      1,      31,         32,         33,
                                   0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~uint64_t{0}};
    return one_in(3) ? random_() : kEdges[any(std::size(kEdges))];
  }

  Bytes message(uint16_t index, uint64_t token, const RemoteMemory& memory) {
    OfiPreamble preamble;
    preamble.token = token;
    preamble.number = index;
    preamble.kind = one_in(sense_) ? OfiMessageKind::grant : kKinds[any(std::size(kKinds))];
    preamble.wanted = preamble.kind == OfiMessageKind::grant && one_in(2);
    Bytes made(kPreambleBytes);
    encode(preamble, made.data());
    switch (preamble.kind) {
      case OfiMessageKind::frames:
        for (size_t frames = 1 + any(3); frames > 0; --frames) add_frame(made, any(300), true);
        break;
      case OfiMessageKind::announce:
        add_frame(made, 64 * 1024 + 1 + any(one_in(sense_) ? 2 * kLongBytes : kLongBytes / 2), false);
        break;
      case OfiMessageKind::grant: {
        made.resize(kGrantBytes);
        encode(OfiGrant{static_cast<uint32_t>(any(2)), memory.address + number(), number()},
               &made[kPreambleBytes]);
        break;
      }
      case OfiMessageKind::credit:
        break;
    }
    if (one_in(sense_)) spoil(made);
    return made;
  }
  // An announcement of a frame that nobody wants.
  static Bytes announcement(uint16_t index) {
    OfiPreamble preamble;
    preamble.token = kTokens.in;
    preamble.number = index;
    preamble.kind = OfiMessageKind::announce;
    Bytes made(kPreambleBytes);
    encode(preamble, made.data());
    wire::FrameHeader header;
    header.op_seq = 3;
    header.length = 100 * 1024;
    made.resize(kPreambleBytes + wire::kHeaderBytes);
    const std::span<std::byte, wire::kHeaderBytes> place(&made[kPreambleBytes], wire::kHeaderBytes);
    wire::encode(header, place);
    return made;
  }
  Bytes noise(size_t size) {
    Bytes made(size);
    for (auto& byte : made) byte = static_cast<std::byte>(random_());
    return made;
  }

 private:
  static constexpr OfiMessageKind kKinds[] = {OfiMessageKind::frames, OfiMessageKind::frames,
                                              OfiMessageKind::announce, OfiMessageKind::credit};

  void add_frame(Bytes& made, size_t length, bool with_payload) {
    wire::FrameHeader header;
    header.op_seq = any(100);
    header.length = static_cast<uint32_t>(length);
    if (one_in(sense_)) header.type = static_cast<wire::FrameType>(1 + any(12));
    if (one_in(sense_)) header.ack = static_cast<uint32_t>(number());
    std::array<std::byte, wire::kHeaderBytes> bytes;
    wire::encode(header, bytes);
    made.insert(made.end(), bytes.begin(), bytes.end());
    if (with_payload) made.resize(made.size() + length, std::byte{7});
  }
  // Behind the token; what was decided is anything from here on.
  void spoil(Bytes& made) {
    constexpr size_t kToken = 8;
    switch (any(4)) {
      case 0:
        for (size_t changes = 1 + any(4); changes > 0; --changes) {
          made[kToken + any(made.size() - kToken)] = static_cast<std::byte>(random_());
        }
        return;
      case 1:
        made.resize(any(made.size()));
        return;
      case 2:
        made.resize(made.size() + 1 + any(200), std::byte{1});
        return;
      default: {
        constexpr size_t kFields[] = {8, 12, 16, 20, 24, 32, 36};
        const uint64_t value = number();
        std::memcpy(&made[kFields[any(std::size(kFields))]], &value, sizeof(value));
      }
    }
  }

  Random random_;
  const size_t sense_;
};

class OfiHostile : public testing::LoopSuite {
 protected:
  static constexpr int kMessages = 24;

  void SetUp() override {
    const std::string provider = provider_here();
    if (provider.empty()) GTEST_SKIP() << "no libfabric";
    LoopSuite::SetUp();
    for (auto& rail : rails_) rail = std::move(*FabricRail::open(provider, "", kRail));
  }
  void TearDown() override {
    honest_.reset();
    for (auto& rail : rails_) rail.reset();
    LoopSuite::TearDown();
  }
  // One connection of the honest side to a member who says anything, until it is enough for one of them.
  void converse(uint64_t seed, Place& place) {
    Speaker member(*rails_[1], "");
    ASSERT_NO_FATAL_FAILURE(connect(member, place));
    testing::Message short_one(1, 100), long_one(2, kLongBytes);
    for (testing::Message* each : {&short_one, &long_one}) ASSERT_TRUE(honest_->post(each->request));
    Words words(seed);
    uint16_t said = 0;
    for (int i = 0; i < kMessages && place.downs == 0; ++i) {
      const RemoteMemory granted = member.listen_on();
      const size_t way = words.any(8);
      if (way == 0) {
        member.write(words.noise(words.any(2) * words.any(kLongBytes)),
                     {granted.address + words.number(), words.one_in(2) ? granted.key : words.number()},
                     kTokens.in ^ words.any(40));
      } else {
        const uint64_t token = way == 1 ? words.number() : kTokens.in;
        const Bytes message = words.message(said, token, granted);
        said = static_cast<uint16_t>(said + (token == kTokens.in ? 1 : 0));
        ASSERT_TRUE(drive_until([&] {
          return go_on(member), place.downs > 0 || member.say(message, message.size() > kShortBytes);
        }));
      }
      for (int turn = 0; turn < 3; ++turn) go_on(member);
    }
    EXPECT_TRUE(drive_until([&] { return go_on(member), place.downs > 0 || member.is_idle(); }));
    for (int turn = 0; turn < 20; ++turn) go_on(member);
    const int before = place.downs;
    honest_.reset();
    EXPECT_LE(place.downs, 1) << before;
    for (const Guarded& each : place.places) EXPECT_TRUE(each.is_sound()) << "seed " << seed;
  }
  void connect(Speaker& member, Place& place) {
    auto port = std::move(*FabricPort::open(*rails_[0], OfiWire::kCompletions));
    member.insert(port->name());
    const auto to = port->insert(member.name());
    ASSERT_TRUE(to.is_ok()) << to.status().to_string();
    honest_ = std::make_unique<Connection>(
        place,
        std::make_unique<OfiWire>(*loop_, std::move(port), to.value(), "a hostile member", kTokens),
        ConnectionOptions{});
    ASSERT_TRUE(honest_->start().is_ok());
  }
  void go_on(Speaker& member) {
    if (honest_->has_output()) honest_->flush();
    lock_->drive_once();
    member.listen_on();
  }
  Nanoseconds next_wakeup() const override { return system_clock().now() + kMillisecond; }

  std::array<std::unique_ptr<FabricRail>, 2> rails_;
  std::unique_ptr<Connection> honest_;
};

TEST_F(OfiHostile, AMemberThatSaysAnythingHarmsNobodyElse) {
  constexpr uint64_t kConversations = 200;
  int landed = 0, downs = 0, descriptors = 0;
  for (uint64_t seed = 0; seed < kConversations && !HasFatalFailure(); ++seed) {
    Place place;
    converse(seed, place);
    landed += place.landed;
    downs += place.downs;
    if (seed == 10) descriptors = testing::open_descriptors();
  }
  EXPECT_LE(testing::open_descriptors(), descriptors + 2);
  EXPECT_GT(landed, 50) << "it said hardly anything that could be understood";
  EXPECT_GT(downs, 50) << "it broke hardly any rule";
  EXPECT_LT(downs, static_cast<int>(kConversations)) << "it said nothing but nonsense";
}

TEST_F(OfiHostile, AMemberThatAnnouncesWithoutEndIsLeft) {
  Place place;
  Speaker member(*rails_[1], "");
  ASSERT_NO_FATAL_FAILURE(connect(member, place));
  for (uint16_t said = 0; said < 40; ++said) {
    const Bytes message = Words::announcement(said);
    ASSERT_TRUE(drive_until([&] { return member.listen_on(), member.say(message, false); }));
  }
  EXPECT_TRUE(drive_until([&] { return go_on(member), place.downs > 0; }));
  const std::string why = place.why.to_string();
  EXPECT_NE(why.find("announced more frames"), std::string::npos) << why;
}

// ------------------------------------------------------------------------------------------ strangers

// The name of a port of the same provider and address at another TCP port.
std::string name_at(const std::string& mine, int port) {
  std::string name = mine;
  const uint16_t number = htons(static_cast<uint16_t>(port));
  std::memcpy(&name[offsetof(sockaddr_in, sin_port)], &number, sizeof(number));
  return name;
}

TEST(OfiStranger, WhoFindsARailsPortsChangesNoResult) {
  const std::string provider = provider_here();
  if (provider.empty()) GTEST_SKIP() << "no libfabric";
  testing::WorldOptions options;
  options.config = "policy=round_robin\nchunk_bytes=65536\n"
                   "rails=tcp:127.1.0.1/32,ofi:" + provider + "@" + kRail + "\n";
  testing::World world(options);
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const std::vector<int> ports = testing::listening_ports_of(kRail);
  ASSERT_GE(ports.size(), 4U) << "a port and a place to meet for each rank";
  std::atomic<bool> over{false};
  std::atomic<int> arrived{0};
  std::thread stranger([&] {
    auto rail = std::move(*FabricRail::open(provider, "", kRail));
    Words words(1);
    for (size_t round = 0; !over; ++round) {
      Speaker speaker(*rail, "");
      speaker.insert(name_at(speaker.name(), ports[round % ports.size()]));
      for (int i = 0; i < 40 && !over; ++i) {
        const size_t size = words.one_in(4) ? words.any(3 * kShortBytes) : words.any(kShortBytes);
        if (words.one_in(10)) {
          speaker.write(words.noise(words.any(64)), {words.number(), words.number()}, words.number());
        } else if (words.one_in(2)) {
          speaker.say(words.noise(size), words.one_in(3));
        } else {
          speaker.say(words.message(static_cast<uint16_t>(i), words.number(), {}), words.one_in(3));
        }
        for (int turn = 0; turn < 4; ++turn) speaker.listen_on();
      }
      for (int turn = 0; turn < 2000 && !speaker.is_idle() && !over; ++turn) speaker.listen_on();
      arrived += speaker.sent();
    }
  });
  std::vector<testing::AllReduceCase> honest(3);
  for (size_t i = 0; i < honest.size(); ++i) {
    honest[i].count = i == 0 ? 3 : 150'000;
    fill(honest[i], 2, i);
  }
  std::string wrong;
  for (int round = 0; round < 2000 && wrong.empty() && (round < 20 || arrived < 200); ++round) {
    auto cases = honest;
    wrong = testing::run_cases(world, cases);
  }
  over = true;
  stranger.join();
  EXPECT_EQ(wrong, "");
  EXPECT_GE(arrived, 200) << "the stranger did not come through";
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(testing::json_number(world.comm(rank).context().stats_json(), "endpoints_lost"), 0);
  }
}

}  // namespace
}  // namespace nezha::transport
