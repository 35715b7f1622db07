// Who makes room at a store's server, and who keeps a place.
#include <gtest/gtest.h>

#include "rendezvous/client_places.h"

namespace nezha::rendezvous {
namespace {

constexpr size_t kMost = 6;
constexpr size_t kMostOfAddress = 4;

class ClientPlacesTest : public ::testing::Test {
 protected:
  // Comes as somebody would at the server; 0 when it was refused.
  ClientId come(const std::string& address) {
    std::optional<ClientId> leaves;
    if (!places_.has_room(address, &leaves)) return 0;
    left_ = leaves.value_or(0);
    if (leaves) places_.remove(*leaves);
    places_.add(++last_, address);
    return last_;
  }
  ClientPlaces places_{kMost, kMostOfAddress};
  ClientId last_ = 0;
  ClientId left_ = 0;  // who made room for the last that came
};

TEST_F(ClientPlacesTest, TheOldestStrangerOfAllMakesRoom) {
  for (size_t i = 0; i < kMost; ++i) EXPECT_NE(come("host" + std::to_string(i)), 0u);
  places_.trust(1);
  EXPECT_NE(come("late"), 0u);
  EXPECT_EQ(left_, 2u);
  EXPECT_NE(come("later"), 0u);
  EXPECT_EQ(left_, 3u);
}

TEST_F(ClientPlacesTest, AnAddressThatIsFullReplacesItsOwn) {
  come("other");
  for (size_t i = 0; i < kMostOfAddress; ++i) come("full");
  EXPECT_EQ(left_, 0u);
  EXPECT_NE(come("full"), 0u);
  EXPECT_EQ(left_, 2u);
}

TEST_F(ClientPlacesTest, WhoHasAskedKeepsItsPlaceAndNoAddressHasAll) {
  for (size_t i = 0; i < kMostOfAddress; ++i) places_.trust(come("full"));
  EXPECT_EQ(come("full"), 0u);
  places_.trust(come("a"));
  places_.trust(come("b"));
  EXPECT_EQ(come("c"), 0u) << "nobody may be sent away";
  places_.remove(1);
  EXPECT_NE(come("full"), 0u);
  EXPECT_EQ(left_, 0u);
}

TEST_F(ClientPlacesTest, TheOldestStrangerIsKnownWhileThereAreSome) {
  EXPECT_EQ(places_.oldest_stranger(), std::nullopt);
  places_.trust(come("a"));
  EXPECT_EQ(places_.oldest_stranger(), std::nullopt);
  const ClientId first = come("a");
  come("b");
  EXPECT_EQ(places_.oldest_stranger(), first);
}

TEST_F(ClientPlacesTest, TrustIsRememberedUntilOneLeaves) {
  const ClientId id = come("host");
  EXPECT_FALSE(places_.is_trusted(id));
  places_.trust(id);
  EXPECT_TRUE(places_.is_trusted(id));
  places_.remove(id);
  EXPECT_FALSE(places_.is_trusted(id));
  places_.trust(id);
  places_.remove(id);
  EXPECT_FALSE(places_.is_trusted(id));
}

}  // namespace
}  // namespace nezha::rendezvous
