// From what libfabric lists to rails: one device is one rail, whichever way it is seen.
#include "context/rail_list.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "rails/policy.h"
#include "fabric/fabric_choice.h"
#include "support/captured_log.h"

namespace nezha::context {
namespace {

using transport::choose_devices;
using transport::FabricDevice;
using transport::RailAddress;

// A host with two ports of InfiniBand and one of RoCE, as libfabric lists them.
std::vector<FabricDevice> host() {
  return {
      {"verbs;ofi_rxm", "mlx5_0", "ib0", "fe80::1", 0, 100e9, 4096},
      {"verbs;ofi_rxm", "mlx5_0", "ib0", "fd00::1", 0, 100e9, 4096},
      {"verbs;ofi_rxm", "mlx5_0", "ib0", "10.1.0.7", 0, 100e9, 4096},
      {"verbs;ofi_rxm", "mlx5_0", "ib0", "169.254.3.3", 0, 100e9, 4096},
      {"verbs;ofi_rxm", "mlx5_1", "ib1", "10.2.0.7", 1, 100e9, 4096},
      {"verbs;ofi_rxm", "mlx5_2", "eth2", "10.3.0.7", 1, 25e9, 1024},
      {"net", "eth0", "eth0", "10.9.0.7", -1, 1e9, 0},
      {"net", "eth2", "eth2", "10.3.0.7", 1, 25e9, 0},
      {"net", "eth2", "eth2", "10.4.0.7", 1, 25e9, 0},
  };
}

std::string names(const std::vector<FabricDevice>& devices) {
  std::string all;
  for (const FabricDevice& each : devices) {
    all += (all.empty() ? "" : " ") + each.domain + "@" + each.address;
  }
  return all;
}

TEST(FabricChoice, ListsEveryDeviceOnceByItsBestAddressAndProvider) {
  EXPECT_EQ(names(choose_devices(host(), "")),
            "mlx5_0@10.1.0.7 mlx5_1@10.2.0.7 mlx5_2@10.3.0.7 eth0@10.9.0.7");
  EXPECT_EQ(names(choose_devices({}, "")), "");
}

TEST(FabricChoice, FindsByDomainDeviceAndAddress) {
  EXPECT_EQ(names(choose_devices(host(), "mlx5_0")), "mlx5_0@10.1.0.7");
  EXPECT_EQ(names(choose_devices(host(), "ib0")), "mlx5_0@10.1.0.7");
  EXPECT_EQ(names(choose_devices(host(), "eth2")), "mlx5_2@10.3.0.7");
  // An address that is asked for is not changed into a better one.
  EXPECT_EQ(names(choose_devices(host(), "fe80::1")), "mlx5_0@fe80::1");
  EXPECT_EQ(names(choose_devices(host(), "10.4.0.7")), "eth2@10.4.0.7");
  EXPECT_EQ(names(choose_devices(host(), "mlx5")), "");
}

RailAddress tcp(const std::string& name, const std::string& address) {
  RailAddress rail;
  rail.name = name;
  rail.address = address;
  return rail;
}

RailAddress ofi(const std::string& name, const std::string& address) {
  RailAddress rail = tcp(name, address);
  rail.transport = "ofi";
  return rail;
}

TEST(FabricRails, OneDeviceIsOneRail) {
  OtherRails fabric;
  fabric.rails.push_back({ofi("mlx5_2", "10.3.0.7"), "eth2"});
  fabric.rails.push_back({ofi("efa_0", ""), "eth5"});
  fabric.rails.push_back({ofi("net@10.8.0.7", "10.8.0.7"), ""});
  fabric.rails.push_back({ofi("shm", ""), ""});
  std::vector<RailAddress> rails = {tcp("eth0", "10.9.0.7"), tcp("eth2", "10.33.0.7"),
                                    tcp("eth5", "10.5.0.7"), tcp("eth8", "10.8.0.7"), tcp("eth9", "")};
  const std::vector<std::string> sentences = add_other_rails(fabric, &rails);
  std::string names;
  for (const RailAddress& rail : rails) names += rail.name + " ";
  EXPECT_EQ(names, "eth0 eth9 mlx5_2 efa_0 net@10.8.0.7 shm ");
  ASSERT_EQ(sentences.size(), 3U);
  EXPECT_NE(sentences[0].find("eth2 (10.33.0.7)"), std::string::npos) << sentences[0];
  EXPECT_NE(sentences[0].find("ofi:mlx5_2"), std::string::npos) << sentences[0];
}

TEST(FabricRails, WhatDoesNotFitIsNamedOnce) {
  const testing::CapturedLog log;
  OtherRails fabric;
  for (int i = 0; i < 5; ++i) {
    const std::string number = std::to_string(i);
    fabric.rails.push_back({ofi("mlx5_" + number, "10.3.0." + number), i == 0 ? "eth0" : ""});
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::vector<RailAddress> rails;
    for (int i = 0; i < 14; ++i) rails.push_back(tcp("eth" + std::to_string(i), ""));
    const std::vector<std::string> sentences = add_other_rails(fabric, &rails);
    ASSERT_EQ(rails.size(), rails::kRailsMax);  // eth0 is mlx5_0, so that three of the five fit
    EXPECT_EQ(rails.back().name, "mlx5_2");
    ASSERT_EQ(sentences.size(), 2U);
    EXPECT_TRUE(sentences[1].starts_with("ofi:mlx5_3, ofi:mlx5_4: left out")) << sentences[1];
    EXPECT_NE(sentences[1].find("at most 16 rails"), std::string::npos) << sentences[1];
    EXPECT_NE(sentences[1].find("NEZHA_RAILS"), std::string::npos) << sentences[1];
  }
  EXPECT_EQ(log.lines(" warn rails: ofi:mlx5_3, ofi:mlx5_4: left out").size(), 1U);
}

TEST(FabricRails, TheListIsSplitByPrefixes) {
  const auto take = [](const std::string& list) {
    auto taken = take_other_rails(list);
    EXPECT_TRUE(taken.is_ok()) << taken.status().to_string();
    return taken.is_ok() ? std::move(*taken) : OtherRails();
  };
  OtherRails none = take("");
  EXPECT_TRUE(none.tcp_wanted && none.rest.empty() && none.rails.empty());
  none = take("^docker,tcp:eth1");
  EXPECT_TRUE(none.tcp_wanted && none.rails.empty());
  EXPECT_EQ(none.rest, "^docker,eth1");
  OtherRails only = take("ofi:shm");
  EXPECT_FALSE(only.tcp_wanted);
  ASSERT_EQ(only.rails.size(), 1U);
  EXPECT_EQ(only.rails[0].rail.variant, "shm");
  OtherRails both = take("tcp:,ofi:verbs;ofi_rxm@192.0.2.7");
  EXPECT_TRUE(both.tcp_wanted);
  EXPECT_EQ(both.rest, "");
  ASSERT_EQ(both.rails.size(), 1U);
  EXPECT_EQ(both.rails[0].rail.variant, "verbs;ofi_rxm");
  EXPECT_EQ(both.rails[0].rail.address, "192.0.2.7");
}

TEST(FabricRails, AKindThatIsNotThereIsNamed) {
  auto taken = take_other_rails("eth0,warp:7");
  ASSERT_FALSE(taken.is_ok());
  EXPECT_EQ(taken.status().code(), Code::unsupported);
  EXPECT_TRUE(taken.status().message().starts_with("rails: 'warp:7': the module warp is not there"))
      << taken.status().message();
  // What may be an address is one, to be refused with the others.
  taken = take_other_rails("fe80::1,cafe:7,eth0:1");
  ASSERT_TRUE(taken.is_ok()) << taken.status().to_string();
  EXPECT_EQ(taken->rest, "fe80::1,cafe:7,eth0:1");
}

TEST(FabricRails, SayWhatIsThereAndWhatIsMissing) {
  const auto parsed = parse_json(describe_rail_kind("ofi"));
  ASSERT_TRUE(parsed.is_ok());
  const bool opened = !parsed.value().at("library").is_null();
  EXPECT_EQ(parsed.value().at("missing").string_or("?").empty(), opened);
  for (const JsonValue& each : parsed.value().at("devices").items()) {
    EXPECT_TRUE(each.at("rail").string_or("").starts_with("ofi:"));
  }
}

}  // namespace
}  // namespace nezha::context
