#include "wire/key_pair.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/handshake.h"

namespace nezha::wire {
namespace {

TEST(KeyPair, TwoRanksShareWhatNobodyElseHas) {
  auto one = KeyPair::make();
  auto two = KeyPair::make();
  auto three = KeyPair::make();
  ASSERT_TRUE(one && two && three);
  EXPECT_EQ(one->public_key().size(), kPublicKeyBytes);
  auto here = one->shared_with(two->public_key());
  auto there = two->shared_with(one->public_key());
  ASSERT_TRUE(here && there);
  EXPECT_EQ(*here, *there);
  EXPECT_FALSE(*here == *three->shared_with(one->public_key()));
  EXPECT_FALSE(*here == *three->shared_with(two->public_key()));
}

TEST(KeyPair, WhatOneHidesTheOtherShows) {
  auto one = KeyPair::make();
  auto two = KeyPair::make();
  ASSERT_TRUE(one && two);
  const Secret secret = secret_from_text("the job's");
  const std::string told = hidden(*one->shared_with(two->public_key()), secret);
  EXPECT_EQ(shown(*two->shared_with(one->public_key()), told), secret);
  EXPECT_FALSE(std::equal(told.begin(), told.end(), reinterpret_cast<const char*>(secret.data())));
}

// Also points of small order, with which everybody would share the same (RFC 7748, section 6.1).
TEST(KeyPair, WhatIsNoKeyIsRefused) {
  auto pair = KeyPair::make();
  ASSERT_TRUE(pair.is_ok());
  for (const std::string& bytes : {std::string(), std::string(31, 'k'), std::string(33, 'k'),
                                   std::string(32, '\0'), "\1" + std::string(31, '\0')}) {
    EXPECT_EQ(pair->shared_with(bytes).status().code(), Code::invalid_argument) << bytes.size();
  }
}

}  // namespace
}  // namespace nezha::wire
