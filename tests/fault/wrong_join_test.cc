// Ranks that do not belong to a job, in every kind of store: they hear why, and the job they meant to
// join forms as if nobody had come.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "conformance/redis_place.h"
#include "conformance/store_kinds.h"
#include "support/temp_directory.h"
#include "support/world.h"
#include "wire/handshake.h"

namespace nezha::testing {
namespace {

constexpr double kFar_s = 10 * kPatience_s;  // only a reason ends a wait in time

struct Misfit {
  const char* name;
  int rank;
  int world_size;
  const char* config;  // beside the job's
  const char* job;
  Code code;
  const char* words;
};

// A job of 3 with a secret; ranks 0 and 1 wait for rank 2.
constexpr const char* kSecret = "secret=a word of the job's that is long enough\n";
constexpr const char* kOtherSecret = "secret=another word, of another job's\n";
constexpr Code kInvalid = Code::invalid_argument;
const Misfit kMisfits[] = {
    {"LargerWorld", 1, 4, kSecret, "job", kInvalid, "has world size 3"},
    {"SmallerWorld", 1, 2, kSecret, "job", kInvalid, "has world size 3"},
    {"AFourthRank", 3, 4, kSecret, "job", kInvalid, "has world size 3"},
    {"HugeWorld", 60000, 65535, kSecret, "job", kInvalid, "has world size 3"},
    {"RankBeyondTheWorld", 3, 3, kSecret, "job", kInvalid, "rank 3 is not in 0..2"},
    {"NegativeRank", -1, 3, kSecret, "job", kInvalid, "rank -1"},
    {"OtherSecret", 2, 3, kOtherSecret, "job", kInvalid, "another secret"},
    {"NoSecret", 2, 3, "", "job", kInvalid, "has none"},
};

// What a store does about a process that takes a rank which is taken, or a job name that is not the one.
enum class Past : uint8_t { none, may_have };

class Shop {
 public:
  virtual ~Shop() = default;
  virtual std::string missing() { return ""; }
  virtual void fill(context::ContextRequest& request) = 0;
  // As the job sees it. `serve` where a server is needed and no rank 0 is there to be it; `secret`: the
  // job's, as a line of configuration.
  virtual std::unique_ptr<rendezvous::Store> look(bool serve, const std::string& secret) = 0;
  virtual Past past() const = 0;
  virtual bool is_tcp() const { return false; }
};

class AddressShop final : public Shop {
 public:
  AddressShop(std::string address, Past past) : address_(std::move(address)), past_(past) {}
  explicit AddressShop(std::unique_ptr<TempDirectory> directory)
      : directory_(std::move(directory)),
        address_("file://" + directory_->path()),
        past_(Past::may_have) {}
  void fill(context::ContextRequest& request) override { request.store = address_; }
  std::unique_ptr<rendezvous::Store> look(bool serve, const std::string& secret) override {
    std::optional<rendezvous::StoreKey> key;
    const std::string word = secret.substr(secret.find('=') + 1);
    if (!secret.empty()) key = wire::store_key_of(wire::secret_from_text(word));
    return rendezvous::opened(address_, serve && is_tcp(), "job/", key);
  }
  Past past() const override { return past_; }
  bool is_tcp() const override { return address_.starts_with("tcp://"); }

 private:
  const std::unique_ptr<TempDirectory> directory_;
  const std::string address_;
  const Past past_;
};

class RedisShop final : public Shop {
 public:
  std::string missing() override {
    if (!redis_.missing().empty()) return redis_.missing();
    return redis_.wait_until_up() ? "" : "redis-server did not start";
  }
  void fill(context::ContextRequest& request) override { request.store = redis_.address(); }
  std::unique_ptr<rendezvous::Store> look(bool, const std::string&) override {
    return redis_.open("job/");
  }
  Past past() const override { return Past::may_have; }

 private:
  rendezvous::RedisPlace redis_;
};

std::unique_ptr<Shop> make_shop(const std::string& kind) {
  if (kind == "redis") return std::make_unique<RedisShop>();
  if (kind == "hash") return std::make_unique<AddressShop>(fresh_store(), Past::none);
  if (kind == "file") return std::make_unique<AddressShop>(std::make_unique<TempDirectory>());
  return std::make_unique<AddressShop>(fresh_tcp_store(), Past::none);
}

class WrongJoin : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    shop_ = make_shop(GetParam());
    if (const std::string missing = shop_->missing(); !missing.empty()) GTEST_SKIP() << missing;
  }

  context::ContextRequest request_of(int rank, int ranks, const std::string& config,
                                     const std::string& job = "job", double timeout_s = kFar_s) {
    context::ContextRequest request;
    shop_->fill(request);
    request.rank = rank;
    request.world_size = ranks;
    request.job = job;
    request.timeout_s = timeout_s;
    request.config = loopback_config(1) + config;
    return request;
  }

  // Ranks 0 and 1 of a job of 3 wait for rank 2; then `meanwhile`; then rank 2 comes and the job works.
  void with_forming_job(const std::function<void()>& meanwhile, const std::string& secret = kSecret) {
    Watchdog watchdog(std::string("wrong joins, ") + GetParam(), 3, 3 * kPatience_s);
    std::vector<Status> outcomes(3);
    std::vector<std::thread> threads;
    const auto start = [&](int rank) {
      threads.emplace_back([this, &watchdog, &outcomes, &secret, rank] {
        auto comm = join(request_of(rank, 3, secret));
        outcomes[static_cast<size_t>(rank)] = comm ? use(**comm) : comm.status();
        watchdog.note(rank, outcomes[static_cast<size_t>(rank)].to_string());
      });
    };
    start(0);
    start(1);
    {
      const auto store = shop_->look(false, secret);
      for (const char* key : {"join/3/0", "join/3/1"}) {
        EXPECT_TRUE(store->get(key, rendezvous::test_deadline()).is_ok());
      }
    }
    meanwhile();
    start(2);
    for (std::thread& thread : threads) thread.join();
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }

  static void expect_refused(const Status& outcome, Code code, const std::string& words,
                             const std::string& name) {
    EXPECT_EQ(outcome.code(), code) << name << ": " << outcome.to_string();
    EXPECT_NE(outcome.message().find(words), std::string::npos) << name << ": " << outcome.to_string();
  }

  std::unique_ptr<Shop> shop_;
};

TEST_P(WrongJoin, WhileTheJobForms) {
  with_forming_job([this] {
    for (const Misfit& misfit : kMisfits) {
      const auto asked =
          request_of(misfit.rank, misfit.world_size, misfit.config, misfit.job);
      expect_refused(join(asked).status(), misfit.code, misfit.words, misfit.name);
    }
  });
}

TEST_P(WrongJoin, ASecretWhereTheJobHasNone) {
  with_forming_job([this] {
    expect_refused(join(request_of(2, 3, kSecret)).status(), kInvalid, "rank 0 has none", "Secret");
  }, "");
}

// Where a store may hold words of the past, nobody can tell a restarted rank from a second one: then the
// one that came first gives way, and the job still forms.
TEST_P(WrongJoin, ARankThatIsTaken) {
  for (const int rank : {0, 1}) {
    if (shop_->past() == Past::may_have) continue;
    const std::string words = rank == 0 && shop_->is_tcp()
                                  ? "only one process of a job is rank 0"
                                  : "rank " + std::to_string(rank) + " is taken";
    with_forming_job([this, rank, &words] {
      expect_refused(join(request_of(rank, 3, kSecret)).status(), kInvalid, words, "Duplicate");
    });
  }
}

// A TCP store serves one job; the others may hold several, and a wrong name looks like a job whose
// other ranks are late.
TEST_P(WrongJoin, AnotherJob) {
  with_forming_job([this] {
    const bool told = shop_->is_tcp();
    const auto outcome =
        join(request_of(2, 3, kSecret, "other", told ? kFar_s : 0.3)).status();
    if (told) expect_refused(outcome, Code::mismatch, "another job is served", "OtherJob");
    else EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
  });
}

// Rank 0 speaks another version: planted, as there is none yet.
TEST_P(WrongJoin, AnotherVersion) {
  const auto store = shop_->look(true, "");
  Watchdog watchdog("another version", 1);
  for (const std::string& version : {std::string("2"), std::string("99"), std::string("x")}) {
    std::atomic<bool> over{false};
    std::thread foreign_zero([&] {
      for (int beat = 0; !over; ++beat) {
        const std::string words = "3 " + version + " aabb - " + std::to_string(beat);
        EXPECT_TRUE(store->set("world", words, rendezvous::test_deadline()).is_ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    expect_refused(join(request_of(1, 3, "")).status(), Code::mismatch, "version", version);
    over = true;
    foreign_zero.join();
  }
}

// The job runs: nobody serves its store any more, so a late rank hears only its own deadline, and those
// inside hear nothing of it.
TEST_P(WrongJoin, WhileTheJobRuns) {
  Watchdog watchdog("late ranks", 1, 3 * kPatience_s);
  using Comm = Result<std::unique_ptr<context::Communicator>>;
  std::array<Comm, 2> comms = {Comm(Status(Code::internal, "")), Comm(Status(Code::internal, ""))};
  const auto on_both = [&](const std::function<void(size_t)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  };
  on_both([&](size_t rank) { comms[rank] = join(request_of(static_cast<int>(rank), 2, kSecret)); });
  for (const auto& comm : comms) ASSERT_TRUE(comm.is_ok()) << comm.status().to_string();
  const std::vector<context::ContextRequest> late = {
      request_of(1, 2, kSecret, "job", 0.3), request_of(2, 3, kSecret, "job", 0.3),
      request_of(1, 3, "", "job", 0.3), request_of(1, 2, kOtherSecret, "job", 0.3)};
  for (const auto& request : late) {
    std::thread job([&] {
      on_both([&](size_t rank) {
        for (int round = 0; round < 20; ++round) {
          const Status used = use(**comms[rank]);
          EXPECT_TRUE(used.is_ok()) << used.to_string();
        }
      });
    });
    const Status outcome = join(request).status();
    job.join();
    EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
  }
  on_both([&](size_t rank) { comms[rank] = Status(Code::internal, "left"); });
}

INSTANTIATE_TEST_SUITE_P(Stores, WrongJoin, ::testing::Values("hash", "tcp", "file", "redis"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace nezha::testing
