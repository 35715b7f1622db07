// The connection suite over libfabric: through the host's TCP, through shared memory, and through the
// adapters that FABRIC_UNDER_TEST names.
#include "fabric/ofi_wire.h"

#include <array>
#include <deque>

#include "base/config.h"
#include "conformance/connection_suite.h"
#include "fabric/fabric_device.h"
#include "fabric/fabric_port.h"
#include "fabric/fabric_rail.h"

namespace nezha::transport {
namespace {

using testing::Recorder;
using Rails = std::array<std::unique_ptr<FabricRail>, 2>;  // one a side, as in two processes

void make_pair(const std::array<std::string, 3>& place, bool checksum, progress::Loop& loop,
               Recorder& left, Recorder& right, ConnectionPair* pair) {
  const auto rails_of_pair = std::make_shared<Rails>();
  Rails& rails = *rails_of_pair;
  std::array<std::unique_ptr<FabricPort>, 2> ports;
  for (size_t i = 0; i < 2; ++i) {
    auto rail = FabricRail::open(place[0], "", place[1 + i]);
    ASSERT_TRUE(rail.is_ok()) << rail.status().to_string();
    rails[i] = std::move(*rail);
    auto port = FabricPort::open(*rails[i], OfiWire::kCompletions);
    ASSERT_TRUE(port.is_ok()) << port.status().to_string();
    ports[i] = std::move(*port);
  }
  const std::array<std::string, 2> names = {ports[0]->name(), ports[1]->name()};
  const std::array<uint64_t, 2> tokens = {0x1234567890ABCDEF, 0xFEDCBA0987654321};
  for (size_t i = 0; i < 2; ++i) {
    const auto to = ports[i]->insert(names[1 - i]);
    ASSERT_TRUE(to.is_ok()) << to.status().to_string();
    auto made = std::make_unique<Connection>(
        i == 0 ? left : right,
        std::make_unique<OfiWire>(loop, std::move(ports[i]), to.value(), "test",
                                  OfiTokens{tokens[i], tokens[1 - i]}),
        ConnectionOptions{.payload_checksum = checksum});
    const Status started = made->start();
    ASSERT_TRUE(started.is_ok()) << started.to_string();
    made->peer = 1;
    (i == 0 ? pair->left : pair->right) = std::move(made);
  }
  pair->beneath = rails_of_pair;
}

using Place = std::array<std::string, 3>;  // provider, address of the left side, of the right side
using Finder = std::function<Result<Place>()>;

PairMaker ofi(const std::string& name, const Finder& find, bool checksum) {
  return {name,
          [=]() -> std::string {
            const auto place = find();
            if (!place) return place.status().message();
            auto rail = FabricRail::open(place.value()[0], "", place.value()[1]);
            return rail ? "" : rail.status().message();
          },
          [=](progress::Loop& loop, Recorder& left, Recorder& right, ConnectionPair* pair) {
            make_pair(find().value(), checksum, loop, left, right, pair);
          }};
}

Result<Place> host_tcp() {
  auto library = FabricLibrary::open();
  if (!library) return library.status();
  return Place{std::string(software_provider(**library)), "127.0.0.1", "127.0.0.1"};
}

Result<Place> shared_memory() { return Place{"shm", "", ""}; }

// What the caller names in the environment: real adapters, in tests/rdma.
Result<Place> named() {
  const std::string name = "FABRIC_UNDER_TEST=";
  std::string all;
  for (const HiddenText& each : ConfigInputs::of_process("").environment) {
    if (each.starts_with(name)) all = each.substr(name.size());
  }
  if (all.empty()) {
    return error(Code::unsupported, "%sPROVIDER@ADDRESS,ADDRESS names no adapters", name.c_str());
  }
  const size_t at = all.find('@');
  const size_t comma = all.find(',', at);
  if (comma == std::string::npos) {
    return error(Code::invalid_argument, "not PROVIDER@ADDRESS,ADDRESS: %s%s", name.c_str(), all.c_str());
  }
  return Place{all.substr(0, at), all.substr(at + 1, comma - at - 1), all.substr(comma + 1)};
}

INSTANTIATE_TEST_SUITE_P(Ofi, ConnectionSuite,
                         ::testing::Values(ofi("tcp", host_tcp, false),
                                           ofi("shm", shared_memory, false),
                                           ofi("checksum", host_tcp, true),
                                           ofi("named", named, false)),
                         name_of_maker);

class OfiMessages : public ConnectionSuite {};

// Each message costs either end a system call on `net`.
TEST_P(OfiMessages, FramesThatAreQueuedTogetherShareMessages) {
  std::deque<testing::Message> messages;
  for (uint64_t i = 0; i < 13; ++i) messages.emplace_back(i, 2000);
  ASSERT_TRUE(left().post(messages[0].request));
  left().flush();
  drive([&] { return right_events_.landed == 1; });  // the connection is made
  const uint64_t before = left().counters().send_calls;
  for (size_t i = 1; i < messages.size(); ++i) ASSERT_TRUE(left().post(messages[i].request));
  left().flush();
  drive([&] { return right_events_.landed == messages.size(); });
  EXPECT_LE(left().counters().send_calls - before, 4U);
  EXPECT_TRUE(right_events_.landed_in_order);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(right_events_.frames[i].payload == messages[i].data) << "frame " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiMessages,
                         ::testing::Values(ofi("tcp", host_tcp, false), ofi("shm", shared_memory, false),
                                           ofi("checksum", host_tcp, true)),
                         name_of_maker);

// Its descriptor stays ready after the message; a loop that took that for news in every poll would
// neither yield nor sleep again.
struct Flusher final : progress::LoopClient {
  bool run(Nanoseconds) override {
    if (pair.left->has_output()) pair.left->flush();
    return false;
  }
  Nanoseconds next_wakeup() const override { return system_clock().now() + 10 * kMillisecond; }
  ConnectionPair pair;
};

TEST(OfiLoop, OneThatPollsBeforeItSleepsStillSleepsAfterAMessage) {
  if (const auto rail = FabricRail::open("net", "", "127.0.0.1"); !rail) {
    GTEST_SKIP() << rail.status().message();
  }
  auto made = progress::Loop::create(system_clock(), 50 * kMicrosecond);
  ASSERT_TRUE(made.is_ok());
  progress::Loop& loop = **made;
  Flusher client;
  loop.set_client(&client);
  Recorder left;
  Recorder right;
  testing::Message message(1, 100);
  {
    progress::Loop::Lock lock(loop);
    make_pair({"net", "127.0.0.1", "127.0.0.1"}, false, loop, left, right, &client.pair);
    ASSERT_NE(client.pair.right, nullptr);
    ASSERT_TRUE(client.pair.left->post(message.request));
  }
  const Nanoseconds deadline = system_clock().now() + 10 * kSecond;
  ASSERT_TRUE(loop.drive_until([&] { return right.landed == 1; }, deadline));
  const uint64_t before = loop.counters().sleeps;
  EXPECT_TRUE(loop.drive_until([&] { return loop.counters().sleeps > before + 3; }, deadline));
  progress::Loop::Lock lock(loop);
  client.pair.left.reset();
  client.pair.right.reset();
}

}  // namespace
}  // namespace nezha::transport
