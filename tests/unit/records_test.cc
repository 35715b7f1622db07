// What ranks write into a store comes back as it was, and nothing else is taken for it.
#include "context/records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace nezha::context {
namespace {

JoinRecord join_example() {
  JoinRecord record;
  record.nonce = "0123";
  record.agreed = "chunk_bytes=4096";
  record.address.rank = 7;
  record.address.host = "host";
  record.address.rails = {{"eth0", "10.1.0.1", 16, 9000, 25e9, "tcp", "", "where"},
                          {"eth1", "fd00::1", 64, 1500, 0}};
  return record;
}

TEST(Records, AJoinComesBack) {
  JoinRecord read;
  ASSERT_TRUE(decode(encode(join_example()), &read));
  EXPECT_EQ(encode(read), encode(join_example()));
  EXPECT_EQ(read.address.rank, 7);
  ASSERT_EQ(read.address.rails.size(), 2u);
  EXPECT_EQ(read.address.rails[1].address, "fd00::1");
  EXPECT_EQ(read.address.rails[0].speed_bits_per_s, 25e9);
}

TEST(Records, AWelcomeComesBack) {
  WelcomeRecord record;
  record.session = "abcd";
  record.sequence = 3;
  record.agreed = "chunk_bytes=4096";
  record.parts = 7;
  WelcomeRecord read;
  ASSERT_TRUE(decode(encode(record), &read));
  EXPECT_EQ(encode(read), encode(record));
  EXPECT_EQ(read.parts, 7u);
}

TEST(Records, KeysAndSecretsHaveOneLength) {
  for (const size_t size : {0, 1, 31, 32, 33, 64}) {
    JoinRecord join = join_example();
    join.key = std::string(size, 'k');
    JoinRecord joined;
    EXPECT_EQ(decode(encode(join), &joined), size == 0 || size == 32) << size;
    const WelcomePart part{0, {{"one"}, {"two", std::string(size, 't')}}};
    WelcomePart read;
    EXPECT_EQ(decode(encode(part), &read), size == 0 || size == 32) << size;
    if (size == 32) {
      EXPECT_EQ(encode(read), encode(part));
    }
  }
}

TEST(Records, ASealedRecordIsOfTheJobAndOfItsPlace) {
  const wire::Secret secret = wire::secret_from_text("the job's");
  const WipedText record(encode(join_example()));
  const WipedText sealed = seal(secret, "job/join/2/1", record);
  WipedText read;
  ASSERT_TRUE(unseal(secret, "job/join/2/1", sealed, &read));
  EXPECT_EQ(read, record);
  const WipedText untouched = read;
  EXPECT_FALSE(unseal(secret, "job/join/2/0", sealed, &read));
  EXPECT_FALSE(unseal(secret, "other/join/2/1", sealed, &read));
  EXPECT_FALSE(unseal(wire::secret_from_text("another"), "job/join/2/1", sealed, &read));
  // What belongs to the place is no part of the record, and the other way round.
  EXPECT_FALSE(unseal(secret, "job/join/2/1" + std::string(record.substr(0, 1)),
                      sealed.substr(1), &read));
  for (size_t cut = 1; cut <= sealed.size(); ++cut) {
    EXPECT_FALSE(unseal(secret, "job/join/2/1", sealed.substr(0, sealed.size() - cut), &read));
  }
  for (size_t at = 0; at < sealed.size(); ++at) {
    WipedText changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(unseal(secret, "job/join/2/1", changed, &read)) << "byte " << at;
  }
  EXPECT_EQ(read, untouched);
}

TEST(Records, AReportComesBack) {
  ReportRecord record;
  record.outcome = error(Code::peer_lost, "no rail").with_peer(2);
  record.left_out = {"eth2", ""};
  ReportRecord read;
  ASSERT_TRUE(decode(encode(record), &read));
  EXPECT_EQ(encode(read), encode(record));
  EXPECT_EQ(read.outcome.code(), Code::peer_lost);
  EXPECT_EQ(read.outcome.peer, 2);
}

template <class Record>
void expect_only_the_whole(const Record& record) {
  const std::string bytes(encode(record));
  Record read;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut(bytes.data(), size);
    EXPECT_FALSE(decode(cut, &read)) << size;
  }
  EXPECT_FALSE(decode(bytes + "x", &read));
  EXPECT_EQ(encode(read), encode(Record{})) << "a refused record left something behind";
}

TEST(Records, APartOfOneIsNone) {
  expect_only_the_whole(join_example());
  WelcomeRecord welcome;
  welcome.session = "abcd";
  welcome.agreed = "one";
  expect_only_the_whole(welcome);
  expect_only_the_whole(WelcomePart{3, {{"one"}, {"two"}}});
  ReportRecord report;
  report.left_out = {"eth2"};
  expect_only_the_whole(report);
}

TEST(Records, ARailWithoutAnAddressYetComesBack) {
  JoinRecord record = join_example();
  record.address.rails[0] = {"eth0", "", 0, 9000, 25e9};
  JoinRecord read;
  ASSERT_TRUE(decode(encode(record), &read));
  EXPECT_TRUE(read.address.rails[0].is_missing());
  EXPECT_FALSE(read.address.rails[1].is_missing());
}

TEST(Records, AnAddressThatIsNoneIsRefused) {
  for (const char* address : {"", "eth0", "10.1.0", "10.1.0.1.2", "::g", "localhost", "10.1.0.1;id"}) {
    JoinRecord record = join_example();
    record.address.rails[0].address = address;
    JoinRecord read;
    EXPECT_FALSE(decode(encode(record), &read)) << address;
  }
}

}  // namespace
}  // namespace nezha::context
