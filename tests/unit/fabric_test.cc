// libfabric opened at run time: what it offers as rails, and what is said when there is none.
#include "fabric/fabric_device.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "support/sockets.h"
#include "fabric/fabric_port.h"
#include "fabric/fabric_rail.h"
#include "fabric/ofi_message.h"

namespace nezha::transport {
namespace {

class Fabric : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = FabricLibrary::open();
    if (!library) GTEST_SKIP() << library.status().message();
    library_ = *library;
    provider_ = software_provider(*library_);
  }

  const FabricLibrary* library_ = nullptr;
  std::string provider_;
};

TEST_F(Fabric, ListsEveryDeviceOnce) {
  auto devices = list_fabric_devices(true);
  ASSERT_TRUE(devices.is_ok()) << devices.status().to_string();
  for (size_t i = 0; i < devices->size(); ++i) {
    const FabricDevice& each = (*devices)[i];
    EXPECT_FALSE(each.provider.empty());
    EXPECT_GE(each.numa_node, -1);
    EXPECT_GE(each.speed_bits_per_s, 0.0);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(each.domain == (*devices)[j].domain && each.address == (*devices)[j].address)
          << each.domain << " " << each.address;
    }
  }
  const auto is_loopback = [](const FabricDevice& each) { return each.address == "127.0.0.1"; };
  const auto found = std::find_if(devices->begin(), devices->end(), is_loopback);
  ASSERT_NE(found, devices->end());
  EXPECT_EQ(found->net_device, "lo");
  // Adapters only: the host's TCP is a rail already.
  auto adapters = list_fabric_devices(false);
  ASSERT_TRUE(adapters.is_ok());
  EXPECT_EQ(std::count_if(adapters->begin(), adapters->end(), is_loopback), 0);
}

TEST_F(Fabric, SaysWhichProviderIsNotThere) {
  auto rail = FabricRail::open("warp", "", "127.0.0.1");
  ASSERT_FALSE(rail.is_ok());
  EXPECT_EQ(rail.status().code(), Code::unsupported);
  EXPECT_NE(rail.status().message().find("warp"), std::string::npos);
  // The library believes any address until a port is to be opened at it.
  auto elsewhere = FabricRail::open(provider_, "", "192.0.2.77");
  EXPECT_FALSE(elsewhere.is_ok() && FabricPort::open(**elsewhere, 16).is_ok());
}

TEST_F(Fabric, RefusesTheProviderThatCrashesAndNamesAnother) {
  auto rail = FabricRail::open("tcp;ofi_rxm", "", "127.0.0.1");
  ASSERT_FALSE(rail.is_ok());
  EXPECT_EQ(rail.status().code(), Code::unsupported);
  EXPECT_NE(rail.status().message().find("ofi:" + provider_), std::string::npos);
  auto devices = list_fabric_devices(true);
  ASSERT_TRUE(devices.is_ok());
  for (const FabricDevice& each : *devices) EXPECT_NE(each.provider, "tcp;ofi_rxm");
}

TEST_F(Fabric, MemoryIsRegisteredUnderKeysThatDiffer) {
  auto rail = FabricRail::open(provider_, "", "127.0.0.1");
  if (!rail) GTEST_SKIP() << rail.status().message();
  std::vector<std::byte> memory(100'000);
  std::vector<fid_mr*> regions(50);
  std::vector<uint64_t> keys;
  for (fid_mr*& region : regions) {
    RemoteMemory remote;
    const Status status = (*rail)->register_target(memory.data(), memory.size(), &region, &remote);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    keys.push_back(remote.key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  for (fid_mr*& region : regions) FabricRail::forget(region);
}

// Who was accepted and has said nothing yet, or half of it.
TEST_F(Fabric, APortLeavesNoSocketBehind) {
  auto rail = FabricRail::open(provider_, "", "127.0.0.1");
  if (!rail) GTEST_SKIP() << rail.status().message();
  if ((*rail)->info().addr_format != FI_SOCKADDR_IN) GTEST_SKIP() << provider_ << " has no sockets";
  for (const std::string said : {"", "half"}) {
    const int before = testing::open_descriptors();
    auto port = FabricPort::open(**rail, 16);
    ASSERT_TRUE(port.is_ok()) << port.status().to_string();
    sockaddr_in there{};
    std::memcpy(&there, (*port)->name().data(), sizeof(there));
    const int caller = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
    ASSERT_EQ(::write(caller, said.data(), said.size()), static_cast<ssize_t>(said.size()));
    const int called = testing::open_descriptors();
    std::array<FabricPort::Completion, 1> none;
    for (int asked = 0; asked < 1000 && testing::open_descriptors() == called; ++asked) {
      (*port)->reap(none.data(), none.size());
    }
    EXPECT_EQ(testing::open_descriptors(), called + 1) << "nobody was accepted";
    port->reset();
    ::close(caller);
    EXPECT_EQ(testing::open_descriptors(), before) << '"' << said << '"';
  }
}

TEST(OfiMessage, ComesBackAndBelievesNothing) {
  std::vector<std::byte> bytes(kGrantBytes);
  OfiPreamble preamble{0x1122334455667788, 7, 9, OfiMessageKind::grant, true, 65535, 3, 21,
                       12345678901234, 250, -98765432109876};
  encode(preamble, bytes.data());
  encode(OfiGrant{5, 0xAABBCCDDEEFF0011, 0x1234}, bytes.data() + kPreambleBytes);
  OfiPreamble read;
  ASSERT_TRUE(decode(bytes, preamble.token, &read));
  EXPECT_EQ(read.credits, 7U);
  EXPECT_EQ(read.landed, 9U);
  EXPECT_EQ(read.kind, OfiMessageKind::grant);
  EXPECT_TRUE(read.wanted);
  EXPECT_EQ(read.number, 65535U);
  EXPECT_EQ(read.writes, 3U);
  EXPECT_EQ(read.longs, 21U);
  EXPECT_EQ(read.sent_at, 12345678901234);
  EXPECT_EQ(read.landed_before_us, 250U);
  EXPECT_EQ(read.least, -98765432109876);
  OfiGrant grant;
  const auto body = std::span<const std::byte>(bytes).subspan(kPreambleBytes);
  ASSERT_TRUE(decode(body, &grant));
  EXPECT_EQ(grant.number, 5U);
  EXPECT_EQ(grant.address, 0xAABBCCDDEEFF0011U);
  EXPECT_EQ(grant.key, 0x1234U);
  EXPECT_FALSE(decode(body.first(body.size() - 1), &grant));
  EXPECT_FALSE(decode(bytes, preamble.token + 1, &read));  // a stranger's
  EXPECT_FALSE(decode(std::span(bytes).first(kPreambleBytes - 1), preamble.token, &read));
  for (const auto& [offset, top] : {std::pair{24, 0x7F}, {24, 0x80}, {36, 0x7F}, {36, 0x80}}) {
    std::vector<std::byte> extreme = bytes;
    std::fill_n(extreme.begin() + offset, 8, static_cast<std::byte>(top == 0x80 ? 0 : 0xFF));
    extreme[static_cast<size_t>(offset) + 7] = static_cast<std::byte>(top);
    ASSERT_TRUE(decode(extreme, preamble.token, &read));
    EXPECT_LE(std::max(std::abs(read.sent_at), std::abs(read.least)), Nanoseconds{1} << 60)
        << "a time that one cannot reckon with";
  }
  for (const int kind : {0, 5, 255}) {
    bytes[16] = static_cast<std::byte>(kind);
    EXPECT_FALSE(decode(bytes, preamble.token, &read));
  }
}

}  // namespace
}  // namespace nezha::transport
