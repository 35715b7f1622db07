// Doors of `ofi` rails: ranks get in while strangers knock by the thousand, and strangers cost nothing
// that stays.
#include "transport/ofi/ofi_meeting.h"

#include <gtest/gtest.h>

#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "transport/ofi/fabric_device.h"

namespace nezha::transport {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr Nanoseconds kPatience = 60 * kSecond;

// Knows everything about the job but its secret.
class Stranger {
 public:
  Stranger(FabricRail& rail, const MeshRequest& job, const std::string& door) : job_(job) {
    auto port = FabricPort::open(rail, 256);
    EXPECT_TRUE(port.is_ok()) << port.status().to_string();
    port_ = std::move(*port);
    auto post = OfiPost::open(*port_, 64);
    EXPECT_TRUE(post.is_ok()) << post.status().to_string();
    post_ = std::move(*post);
    door_ = post_->enter(door);
    EXPECT_NE(door_, nullptr);
  }
  ~Stranger() { port_->close(); }

  void turn(Nanoseconds now) { post_->turn(&heard_, now); }
  void send(std::string message, Nanoseconds now) {
    post_->send(door_, std::move(message), now + kPatience);
  }
  bool is_idle() const { return post_->is_idle(); }
  const std::vector<std::string>& heard() const { return heard_; }

  DoorMessage hello() {
    DoorMessage message;
    wire::Hello hello;
    hello.job = job_.job;
    hello.world_size = 2;
    hello.acceptor_rank = 1;
    for (std::byte& each : hello.nonce) each = static_cast<std::byte>(random_());
    message.nonce = hello.nonce;
    message.name = port_->name();
    wire::encode(hello, message.hello);
    return message;
  }
  // One of the things that strangers say.
  std::string anything() {
    DoorMessage message = hello();
    switch (random_() % 7) {
      case 0: {
        std::string noise(random_() % 900, '\0');
        for (char& each : noise) each = static_cast<char>(random_());
        return noise;
      }
      case 1:
        message.name = std::string(random_() % 512, 'x');
        break;
      case 2: {  // somebody else's address
        sockaddr_in elsewhere{};
        elsewhere.sin_family = AF_INET;
        elsewhere.sin_port = htons(9);
        elsewhere.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1
        message.name.assign(reinterpret_cast<const char*>(&elsewhere), sizeof(elsewhere));
        break;
      }
      case 3:
        message.word = DoorWord::proof;
        break;
      case 4:
        message.word = static_cast<DoorWord>(1 + random_() % 7);
        break;
      case 5:
        message.hello[random_() % message.hello.size()] ^= std::byte{1};
        break;
      default:
        break;
    }
    std::string bytes = encode(message);
    if (random_() % 16 == 0) bytes.resize(random_() % bytes.size());
    return bytes;
  }

 private:
  const MeshRequest& job_;
  std::unique_ptr<OfiPost> post_;
  std::unique_ptr<FabricPort> port_;
  OfiPost::Address* door_ = nullptr;
  std::vector<std::string> heard_;
  std::mt19937 random_{20240611};
};

class OfiDoors : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = FabricLibrary::open();
    if (!library) GTEST_SKIP() << library.status().message();
    provider_ = software_provider(**library);
    job_.job = 0x0123456789ABCDEF;
    job_.secret = wire::secret_from_text("doors");
    job_.streams_per_rail = 4;
    std::vector<std::unique_ptr<FabricPort>> doors;
    for (int rank = 0; rank < 2; ++rank) {
      rails_.push_back(open_rail());
      auto door = OfiMeeting::open_door(*rails_.back());
      ASSERT_TRUE(door.is_ok()) << door.status().to_string();
      job_.ranks.push_back(
          {rank, "host", {{"lo", kAddress, 8, 0, 0, "ofi", provider_, (*door)->name()}}});
      doors.push_back(std::move(*door));
    }
    for (int rank = 0; rank < 2; ++rank) {
      job_.rank = rank;
      meetings_.push_back(std::make_unique<OfiMeeting>(
          job_, std::vector<FabricRail*>{rails_[static_cast<size_t>(rank)].get()}));
      std::vector<std::unique_ptr<FabricPort>> own;
      own.push_back(std::move(doors[static_cast<size_t>(rank)]));
      ASSERT_TRUE(meetings_.back()->take_doors(std::move(own)).is_ok());
    }
  }
  std::unique_ptr<FabricRail> open_rail() {
    auto rail = FabricRail::open(provider_, "", kAddress);
    EXPECT_TRUE(rail.is_ok()) << rail.status().to_string();
    return std::move(*rail);
  }
  const std::string& door() const { return job_.ranks[1].rails[0].blob; }
  void turn() {
    for (auto& meeting : meetings_) meeting->turn(system_clock().now());
  }
  // Four streams are opened, one after the other.
  template <class Meanwhile>
  void join_all(Meanwhile meanwhile) {
    const Nanoseconds deadline = system_clock().now() + kPatience;
    for (size_t lane = 0; lane < 4; ++lane) {
      meetings_[0]->dial({1, 0, 0, static_cast<int>(lane)}, 0, system_clock().now(), kPatience, false);
      while (meetings_[0]->joined.size() + meetings_[0]->refused.size() <= lane ||
             meetings_[1]->joined.size() <= lane) {
        ASSERT_LT(system_clock().now(), deadline);
        ASSERT_TRUE(meetings_[0]->refused.empty()) << meetings_[0]->refused.front().reason;
        meanwhile();
        turn();
      }
    }
    for (auto& meeting : meetings_) {
      for (OfiJoined& joined : meeting->joined) joined.port->close();
    }
  }

  std::string provider_;
  std::vector<std::unique_ptr<FabricRail>> rails_;
  MeshRequest job_;
  std::vector<std::unique_ptr<OfiMeeting>> meetings_;
};

TEST_F(OfiDoors, RanksGetInThroughAFloodAndStrangersLeaveNothing) {
  constexpr int kMessages = 4000;
  const auto rail = open_rail();
  Stranger stranger(*rail, job_, door());
  int sent = 0;
  size_t most = 0;
  const auto flood = [&] {
    const Nanoseconds now = system_clock().now();
    for (int i = 0; i < 16; ++i, ++sent) stranger.send(stranger.anything(), now);
    stranger.turn(now);
    most = std::max(most, meetings_[1]->entries());
  };
  join_all(flood);
  const Nanoseconds deadline = system_clock().now() + kPatience;
  while ((sent < kMessages || !stranger.is_idle()) && system_clock().now() < deadline) {
    if (sent < kMessages) flood();
    stranger.turn(system_clock().now());
    turn();
  }
  EXPECT_GE(sent, kMessages);
  EXPECT_FALSE(stranger.heard().empty()) << "half right hellos are to be answered";
  // One address, and what the four streams spent.
  EXPECT_LE(most, 8U);
  EXPECT_EQ(meetings_[1]->joined.size(), 4U);
}

TEST_F(OfiDoors, AnswerOnlyToAddressesOfRanks) {
  const auto rail = open_rail();
  Stranger stranger(*rail, job_, door());
  DoorMessage honest = stranger.hello();
  DoorMessage elsewhere = stranger.hello();
  elsewhere.name[4] = static_cast<char>(elsewhere.name[4] ^ 1);  // of the IPv4 address
  const Nanoseconds deadline = system_clock().now() + kPatience;
  stranger.send(encode(elsewhere), system_clock().now());
  stranger.send(encode(honest), system_clock().now());
  while (stranger.heard().empty() && system_clock().now() < deadline) {
    stranger.turn(system_clock().now());
    turn();
    EXPECT_LE(meetings_[1]->entries(), 1U);
  }
  ASSERT_EQ(stranger.heard().size(), 1U);
  DoorMessage answer;
  ASSERT_TRUE(decode(stranger.heard()[0], &answer));
  EXPECT_EQ(answer.word, DoorWord::challenge);
  EXPECT_EQ(answer.nonce, honest.nonce);
}

// What was said through a door once is worth nothing when somebody says it again.
TEST_F(OfiDoors, ASecondProofOpensNothing) {
  const auto rail = open_rail();
  Stranger insider(*rail, job_, door());  // plays the dialler by hand
  const DoorMessage hello = insider.hello();
  wire::Hello said;
  ASSERT_EQ(wire::decode(hello.hello, &said), wire::Refusal::none);
  const auto heard = [&](size_t count) {
    const Nanoseconds deadline = system_clock().now() + kPatience;
    while (insider.heard().size() < count && system_clock().now() < deadline) {
      insider.turn(system_clock().now());
      turn();
    }
    ASSERT_GE(insider.heard().size(), count);
  };
  insider.send(encode(hello), system_clock().now());
  heard(1);
  DoorMessage answer;
  wire::Nonce nonce;
  ASSERT_TRUE(decode(insider.heard()[0], &answer));
  ASSERT_EQ(wire::verify_challenge(job_.secret, said, answer.block, &nonce), wire::Refusal::none);
  DoorMessage proof = hello;
  proof.word = DoorWord::proof;
  wire::make_proof(job_.secret, said, nonce, proof.block);
  for (int i = 0; i < 3; ++i) insider.send(encode(proof), system_clock().now());
  insider.send(encode(insider.hello()), system_clock().now());
  heard(3);  // welcome, and the last hello's challenge: all before it was answered
  EXPECT_EQ(insider.heard().size(), 3U);
  DoorMessage last;
  ASSERT_TRUE(decode(insider.heard()[1], &answer));
  ASSERT_TRUE(decode(insider.heard()[2], &last));
  EXPECT_EQ(answer.word, DoorWord::welcome);
  EXPECT_EQ(last.word, DoorWord::challenge);
}

}  // namespace
}  // namespace nezha::transport
