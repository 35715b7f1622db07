// Addresses of TCP rails: what two rails have in common, and what others may have written there.
#include "transport/tcp/tcp_address.h"

#include <gtest/gtest.h>

namespace nezha::transport {
namespace {

RailAddress rail_at(const std::vector<TcpPlace>& places) {
  RailAddress rail{"eth0", places.front().address, places.front().prefix_length};
  rail.blob = encode(places);
  return rail;
}

const TcpPlace kFour{"10.1.0.1", 24, {1, 2}};
const TcpPlace kNearFour{"10.1.0.2", 24, {3, 4}};
const TcpPlace kFarFour{"10.9.0.2", 24, {3, 4}};
const TcpPlace kSix{"fd00:1::1", 64, {5, 6}};
const TcpPlace kNearSix{"fd00:1::2", 64, {7, 8}};
const TcpPlace kFarSix{"fd00:9::2", 64, {7, 8}};

std::string route(const std::vector<TcpPlace>& mine, const std::vector<TcpPlace>& theirs) {
  const auto found = route_between(rail_at(mine), rail_at(theirs));
  if (!found) return "none";
  return found->from.address + " " + found->to.address + " " + std::to_string(found->to.ports.device) +
         (found->near ? " near" : "");
}

TEST(TcpAddress, TheFamilyThatBothHaveIsUsed) {
  EXPECT_EQ(route({kFour, kSix}, {kNearSix}), "fd00:1::1 fd00:1::2 7 near");
  EXPECT_EQ(route({kSix}, {kNearFour, kNearSix}), "fd00:1::1 fd00:1::2 7 near");
  EXPECT_EQ(route({kFour}, {kNearFour, kNearSix}), "10.1.0.1 10.1.0.2 3 near");
  EXPECT_EQ(route({kFour, kSix}, {kNearFour, kNearSix}), "10.1.0.1 10.1.0.2 3 near");
  EXPECT_EQ(route({kFour, kSix}, {kFarFour, kNearSix}), "fd00:1::1 fd00:1::2 7 near");
  EXPECT_EQ(route({kFour, kSix}, {kFarFour, kFarSix}), "10.1.0.1 10.9.0.2 3");
  EXPECT_EQ(route({kFour}, {kNearSix}), "none");
}

TEST(TcpAddress, WhatIsNoneIsNotThere) {
  const auto with = [](const std::string& blob) {
    RailAddress rail{"eth0", "10.1.0.1", 24};
    rail.blob = blob;
    return rail;
  };
  const std::string both = encode({kFour, kSix});
  ASSERT_EQ(places_of(with(both)).size(), 2U);
  EXPECT_EQ(places_of(with(both))[1].ports.local, 6);
  for (size_t size = 0; size < both.size() - kSix.address.size(); ++size) {
    EXPECT_EQ(places_of(with(both.substr(0, size))).size(), 1U) << size;
  }
  for (const TcpPlace& other : {kNearFour, TcpPlace{"name", 64, {5, 6}}, TcpPlace{"", 64, {5, 6}},
                                TcpPlace{"fd00::1", 129, {5, 6}}}) {
    EXPECT_EQ(places_of(with(encode({kFour, other}))).size(), 1U) << other.address;
  }
  EXPECT_EQ(ports_of(with("")).device, 0);
  EXPECT_EQ(ports_of(with("12345")).local, 0);
}

}  // namespace
}  // namespace nezha::transport
