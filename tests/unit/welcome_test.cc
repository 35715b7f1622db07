// The welcome of many ranks, in a store without processes: it comes in parts that a store takes, every
// rank reads the same, and a part that is not what it should be is named.
#include "context/welcome.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "context/bootstrap.h"
#include "rendezvous/store.h"
#include "support/captured_log.h"
#include "support/forwarding_store.h"

namespace nezha::context {
namespace {

constexpr int kRanks = 20'000;

std::vector<transport::RailAddress> rails_of(int rank, int rails) {
  std::vector<transport::RailAddress> all;
  for (int rail = 0; rail < rails; ++rail) {
    const std::string address = "10." + std::to_string(100 + rail) + "." + std::to_string(rank / 250) +
                                "." + std::to_string(1 + rank % 250);
    all.push_back({"ens" + std::to_string(1000 + rail), address, 16, 9000, 100e9, "tcp", "",
                   "port:40000,port:40001"});
  }
  return all;
}

// What `rank` says; of a job whose ranks share hosts eight at a time.
std::string words_of(int rank, int rails, const std::string& agreed) {
  const std::string nonce = "0123456789abcdef0123456789a" + std::to_string(10000 + rank);
  const std::string host = "3f0c1f5e-5f0e-4f3e-9d53-0d2a4f5c9e7b/4026531840/node-" +
                           std::to_string(10000 + rank / 8) + ".cluster.example";
  // One for all: making thousands takes longer than what is tested.
  static const std::string key = wire::KeyPair::make()->public_key();
  return encode(JoinRecord{nonce, agreed, {rank, host, rails_of(rank, rails)}, key});
}

std::string agreed() {
  return Config().agreed_fingerprint_text() +
         " calibration=none algorithm_file=none authentication=off";
}

std::vector<std::string> words_of_all(int ranks, int rails) {
  std::vector<std::string> joined;
  for (int rank = 0; rank < ranks; ++rank) joined.push_back(words_of(rank, rails, agreed()));
  return joined;
}

std::vector<WelcomePart::Entry> entries_of(const std::vector<std::string>& joined) {
  std::vector<WelcomePart::Entry> entries;
  const std::string told(wire::kSecretBytes, 's');
  for (const std::string& words : joined) entries.push_back({words, told});
  return entries;
}

Welcome begun(size_t parts) {
  Welcome welcome;
  EXPECT_TRUE(begin(encode(WelcomeRecord{"session", 1, agreed(), parts}), &welcome));
  return welcome;
}

TEST(Welcome, OfTwentyThousandRanksComesInPartsThatAStoreTakes) {
  for (const int rails : {2, 8}) {
    const std::vector<std::string> joined = words_of_all(kRanks, rails);
    const std::vector<std::string> parts = parts_of(entries_of(joined), agreed());
    Welcome welcome = begun(parts.size());
    for (const std::string& part : parts) {
      EXPECT_LE(seal({}, part_key(welcome.head, 0), part).size(), rendezvous::kValueBytesMax);
      EXPECT_EQ(add_part(part, kRanks, &welcome), "");
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      JoinRecord read;
      ASSERT_TRUE(read_joined(welcome, static_cast<size_t>(rank), &read)) << rank;
      ASSERT_EQ(encode(read), joined[static_cast<size_t>(rank)]) << rank;
    }
    std::printf("%d ranks on %d rails: %zu parts, %zu bytes of a rank\n", kRanks, rails, parts.size(),
                welcome.bytes.size() / kRanks);
    EXPECT_LT(parts.size(), static_cast<size_t>(kRanks) / 500);
  }
}

TEST(Welcome, KeepsWhatARankIsConfiguredWithOtherwise) {
  std::vector<std::string> joined = words_of_all(3, 1);
  joined[1] = words_of(1, 1, "chunk_bytes=1");
  joined[2] = "not a record";
  Welcome welcome = begun(1);
  ASSERT_EQ(add_part(parts_of(entries_of(joined), agreed())[0], 3, &welcome), "");
  JoinRecord read;
  ASSERT_TRUE(read_joined(welcome, 1, &read));
  EXPECT_EQ(read.agreed, "chunk_bytes=1");
  EXPECT_FALSE(read_joined(welcome, 2, &read));
  EXPECT_FALSE(read_joined(welcome, 3, &read));
}

// ------------------------------------------------------------------------ ranks that meet in a store

// Of a job of many ranks only two are there; the store has what the others say.
struct Crowd {
  int ranks;
  int there;  // beside rank 0
  std::string address;
  std::unique_ptr<rendezvous::Store> keep;

  Crowd(int ranks_, int there_, int rails, const std::string& name)
      : ranks(ranks_), there(there_), address("hash://" + name),
        keep(std::move(*rendezvous::open_store(address, {}))) {
    for (int rank = 1; rank < ranks; ++rank) {
      if (rank == there) continue;
      const std::string key = "join/" + std::to_string(ranks) + "/" + std::to_string(rank);
      EXPECT_TRUE(keep->set(key, words_of(rank, rails, agreed()), kNever).is_ok());
    }
  }
};

// The store as one rank sees it.
class Sight final : public testing::ForwardingStore {
 public:
  using Change = std::function<void(const std::string& key, WipedText& value)>;
  Sight(const Crowd& crowd, Change change)
      : ForwardingStore(std::move(*rendezvous::open_store(crowd.address, {}))), crowd_(crowd),
        change_(std::move(change)) {}
  Status set(std::string_view key, std::string_view value, Nanoseconds deadline) override {
    largest = std::max(largest, value.size());
    return ForwardingStore::set(key, value, deadline);
  }
  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    // The ranks that are not there have read everything.
    const bool is_sign = key.find("/read/") != key.npos;
    if (is_sign && !key.ends_with("/" + std::to_string(crowd_.there))) return WipedText("1");
    if (key == removed) deadline = 0;
    Result<WipedText> value = Status(Code::internal, "");
    // In pieces, so that a rank that waits sees that the test is over; it reads nothing else meanwhile.
    do {
      if (is_over) return Status(Code::aborted, "the test is over");
      value = ForwardingStore::get(key, std::min(deadline, system_clock().now() + 100 * kMillisecond));
    } while (!value && value.status().code() == Code::timed_out && system_clock().now() < deadline);
    if (value && key.find("welcome") != key.npos) ++reads, bytes += value->size();
    if (value && change_) change_(std::string(key), *value);
    return value;
  }
  std::string describe() const override { return "memory"; }

  size_t largest = 0;
  size_t reads = 0;  // of the welcome and its parts
  size_t bytes = 0;
  std::string removed;  // is not waited for
  std::atomic<bool> is_over{false};  // nothing more is read

 private:
  const Crowd& crowd_;
  const Change change_;
};

Result<Session> meet(rendezvous::Store& store, int rank, int ranks, int rails, Nanoseconds patience) {
  Config config;
  config.authentication = "off";  // ranks of several hosts, without a secret
  BootstrapRequest request;
  request.rank = rank;
  request.world_size = ranks;
  request.rails = rails_of(rank, rails);
  request.deadline = system_clock().now() + patience;
  return Bootstrap(store, config, request).meet();
}

class ManyRanks : public ::testing::TestWithParam<int> {};

TEST_P(ManyRanks, MeetAndLearnAllAddresses) {
  constexpr int kThere = 12'345;
  const ::nezha::testing::CapturedLog log;
  const Crowd crowd(kRanks, kThere, GetParam(), "many-" + std::to_string(GetParam()));
  Sight zeros(crowd, nullptr), others(crowd, nullptr);
  Result<Session> zero = Status(Code::internal, "");
  std::thread thread([&] { zero = meet(zeros, 0, kRanks, GetParam(), 300 * kSecond); });
  Result<Session> other = meet(others, kThere, kRanks, GetParam(), 300 * kSecond);
  thread.join();
  ASSERT_TRUE(zero.is_ok()) << zero.status().to_string();
  ASSERT_TRUE(other.is_ok()) << other.status().to_string();
  EXPECT_LE(zeros.largest, rendezvous::kValueBytesMax);
  EXPECT_TRUE(zero->secret == other->secret);
  ASSERT_EQ(other->ranks.size(), static_cast<size_t>(kRanks));
  for (const int rank : {0, 1, kThere, kRanks - 1}) {
    const auto& rails = other->ranks[static_cast<size_t>(rank)].rails;
    ASSERT_EQ(rails.size(), static_cast<size_t>(GetParam()));
    EXPECT_EQ(rails.back().address, rails_of(rank, GetParam()).back().address);
  }
  // In as many exchanges as there are parts, and one; and one more after each line about its waiting.
  const size_t lines = log.lines("it has joined, and not all others have").size();
  EXPECT_LE(others.reads, 2 + lines + others.bytes / (rendezvous::kValueBytesMax / 2));
}

INSTANTIATE_TEST_SUITE_P(Rails, ManyRanks, ::testing::Values(2, 8), [](const auto& each) {
  return "On" + std::to_string(each.param) + "Rails";
});

// Of 3,000 ranks on 8 rails the third part is not what it should be.
struct Wrong {
  const char* name;
  std::function<void(WipedText& part, const WipedText& second)> change;
  const char* words;
};

const Wrong kWrongs[] = {
    {"CutOff", [](WipedText& part, const WipedText&) { part.resize(part.size() / 2); }, "it is cut off"},
    {"Empty", [](WipedText& part, const WipedText&) { part.clear(); }, "it is cut off"},
    {"Repeated", [](WipedText& part, const WipedText& second) { part = second; },
     "in place of rank"},
    {"TooLong", [](WipedText& part, const WipedText&) { part += "x"; }, "no part of a welcome"},
    {"TooManyRanks",
     [](WipedText& bytes, const WipedText&) {
       WelcomePart part;
       ASSERT_TRUE(decode(bytes, &part));
       part.entries.resize(3'000);
       bytes = encode(part);
     },
     "of a job of 3000"},
    {"WithoutRanks",
     [](WipedText& bytes, const WipedText&) {
       WelcomePart part;
       ASSERT_TRUE(decode(bytes, &part));
       part.entries.clear();
       bytes = encode(part);
     },
     "it is empty"},
};

class WrongPart : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongPart, IsNamedWithItsRankAndKey) {
  const Crowd crowd(3'000, 7, 8, std::string("wrong-") + GetParam().name);
  std::atomic<int> changed{0};
  WipedText second;
  Sight zeros(crowd, nullptr);
  Sight others(crowd, [&](const std::string& key, WipedText& value) {
    if (key.ends_with("/welcome/1/1")) second = value;
    if (!key.ends_with("/welcome/1/2")) return;
    GetParam().change(value, second);
    ++changed;
  });
  std::thread thread([&] { EXPECT_FALSE(meet(zeros, 0, 3'000, 8, 300 * kSecond).is_ok()); });
  const Status outcome = meet(others, 7, 3'000, 8, 300 * kSecond).status();
  zeros.is_over = true;
  thread.join();
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(outcome.code(), Code::invalid_argument);
  const std::string& said = outcome.message();
  EXPECT_NE(said.find("rank 7 cannot use part 3 of "), std::string::npos) << said;
  EXPECT_NE(said.find("/welcome/1/2'"), std::string::npos) << said;
  EXPECT_NE(said.find(GetParam().words), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Each, WrongPart, ::testing::ValuesIn(kWrongs),
                         [](const auto& each) { return each.param.name; });

TEST(MissingPart, IsNamedWithItsRankAndKey) {
  const Crowd crowd(3'000, 7, 8, "missing");
  int removed = 0;
  Sight zeros(crowd, nullptr);
  Sight others(crowd, [&](const std::string& key, WipedText&) {
    if (!key.ends_with("/welcome/1/0")) return;
    const std::string next = key.substr(0, key.size() - 1) + "1";
    removed += crowd.keep->remove(next, kNever).is_ok() ? 1 : 0;
    others.removed = next;
  });
  std::thread thread([&] { EXPECT_FALSE(meet(zeros, 0, 3'000, 8, 300 * kSecond).is_ok()); });
  const Status outcome = meet(others, 7, 3'000, 8, 300 * kSecond).status();
  zeros.is_over = true;
  thread.join();
  EXPECT_EQ(removed, 1);
  EXPECT_EQ(outcome.code(), Code::timed_out);
  EXPECT_NE(outcome.message().find("rank 7 cannot use part 2 of "), std::string::npos)
      << outcome.to_string();
  EXPECT_NE(outcome.message().find("/welcome/1/1'"), std::string::npos) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::context
