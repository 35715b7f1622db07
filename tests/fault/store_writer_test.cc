// Somebody who can read and write the store in which a job meets, without its secret: he leads no
// connection to himself, and finds no secret when the job has met or failed.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "base/descriptor.h"
#include "context/records.h"
#include "rendezvous/socket.h"
#include "support/watched_store.h"
#include "support/world.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::testing {
namespace {

constexpr const char* kSecret = "secret=5ec2e75ec2e75ec2e75ec2e75ec2e7ff\n";

// Where a rail of the attacked job is made to lead: counts who comes, and says nothing.
class Trap {
 public:
  Trap() : listener_(std::move(*rendezvous::listen_on("127.1.0.1", 0))) {
    thread_ = std::thread([this] {
      std::vector<Descriptor> held;
      while (!over_) {
        pollfd waits{listener_.get(), POLLIN, 0};
        if (poll(&waits, 1, 20) <= 0) continue;
        held.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (held.back()) ++visitors_;
      }
    });
  }
  ~Trap() {
    over_ = true;
    thread_.join();
  }
  uint16_t port() const { return rendezvous::port_of(listener_); }
  int visitors() const { return visitors_; }

 private:
  Descriptor listener_;
  std::atomic<bool> over_{false};
  std::atomic<int> visitors_{0};
  std::thread thread_;
};

class StoreWriter : public ::testing::Test {
 protected:
  context::ContextRequest request_of(int rank, const std::string& config, double timeout_s) {
    context::ContextRequest request = testing::request_of(rank, 2, "");
    callbacks_[static_cast<size_t>(rank)] = store_->callbacks(rank);
    request.callbacks = &callbacks_[static_cast<size_t>(rank)];
    request.config += config;
    if (timeout_s < kPatience_s) request.config += "probe_timeout_s=0.5\n";
    request.timeout_s = timeout_s;
    return request;
  }

  std::vector<Status> meet(const std::string& config, double timeout_s) {
    std::vector<context::ContextRequest> requests = {request_of(0, config, timeout_s),
                                                     request_of(1, config, timeout_s)};
    Watchdog watchdog("meeting under eyes", 2);
    std::vector<Status> outcomes(2);
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        auto comm = join(requests[rank]);
        outcomes[rank] = comm ? use(**comm) : comm.status();
        watchdog.note(static_cast<int>(rank), outcomes[rank].to_string());
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return outcomes;
  }

  // A welcome was there, and is not any more.
  void expect_no_welcome_left() {
    EXPECT_TRUE(store_->wrote("nezha/welcome")) << "the job had no welcome, so nothing is proved";
    EXPECT_EQ(store_->values().count("nezha/welcome"), 0u);
  }

  std::unique_ptr<WatchedStore> store_ = std::make_unique<WatchedStore>();
  std::array<rendezvous::StoreCallbacks, 2> callbacks_;
};

// The join record with the trap's port in place of the rank's own; "" when it is none.
std::string redirected(std::string_view join, uint16_t port) {
  context::JoinRecord record;
  if (!context::decode(join, &record)) return "";
  for (transport::RailAddress& rail : record.address.rails) {
    rail.blob = transport::encode(transport::TcpPorts{port, port});
  }
  return encode(record);
}

// The same for what is in the store under `key`, behind which the proof of the rank may stand.
bool redirect(const std::string& key, std::string& value, uint16_t port) {
  for (const size_t proof : {wire::kMacBytes, size_t{0}}) {
    const std::string_view bytes = std::string_view(value).substr(0, value.size() - proof);
    std::string changed;
    context::WelcomePart part;
    if (key.find("welcome") == std::string::npos) {
      changed = redirected(bytes, port);
    } else if (context::decode(bytes, &part)) {
      part.entries[0].joined = redirected(part.entries[0].joined, port);
      changed = encode(part);
    }
    if (changed.empty()) continue;
    value = changed + value.substr(value.size() - proof);
    return true;
  }
  return false;
}

// What rank 0 reads of rank 1, or rank 1 in the welcome of rank 0, has an address of the attacker's.
// The writer himself finds his words unchanged.
TEST_F(StoreWriter, LeadsNoConnectionToHimself) {
  struct Attack {
    const char* config;
    int reader;
    const char* key;
  };
  for (const Attack& attack :
       {Attack{kSecret, 0, "nezha/join/2/1"}, {kSecret, 1, "/welcome/1/0"}, {"", 0, "nezha/join/2/1"}}) {
    store_ = std::make_unique<WatchedStore>();
    const bool has_secret = attack.config[0] != '\0';
    Trap trap;
    std::atomic<int> changed{0};
    store_->on_get = [&](int reader, const std::string& key, std::string& value) {
      if (reader != attack.reader || key.find(attack.key) == std::string::npos) return;
      changed += redirect(key, value, trap.port()) ? 1 : 0;
    };
    const auto outcomes = meet(attack.config, 1.5);
    EXPECT_GE(changed, 1) << attack.key << ": nothing was attacked";
    EXPECT_EQ(trap.visitors(), 0) << attack.key;
    for (const Status& outcome : outcomes) EXPECT_FALSE(outcome.is_ok()) << attack.key;
    const std::string& said = outcomes[static_cast<size_t>(attack.reader)].message();
    EXPECT_EQ(said.find("without the job's secret") != std::string::npos, has_secret) << said;
  }
}

// Somebody writes over what a rank said: it notices, and says so.
TEST_F(StoreWriter, IsNamedByTheRankWhoseWordsHeReplaced) {
  std::atomic<int> replaced{0};
  store_->on_set = [&](const std::string& key, std::string& value) {
    if (key == "nezha/join/2/1") ++replaced, value.back() = static_cast<char>(value.back() ^ 1);
    return true;
  };
  const auto outcomes = meet(kSecret, 1.5);
  EXPECT_GE(replaced, 1);
  EXPECT_EQ(outcomes[1].code(), Code::invalid_argument);
  EXPECT_NE(outcomes[1].message().find("overwritten"), std::string::npos) << outcomes[1].to_string();
}

// What was written in an earlier run with the same secret is written again.
TEST_F(StoreWriter, CannotReplayAnEarlierRun) {
  std::atomic<int> replayed{0};
  std::map<std::string, std::string> earlier;
  std::mutex mutex;
  bool again = false;
  store_->on_set = [&](const std::string& key, std::string& value) {
    const bool is_part = key.find("/welcome/") != std::string::npos;
    if (key != "nezha/join/2/1" && key != "nezha/welcome" && !is_part) return true;
    const std::lock_guard lock(mutex);
    if (!again) earlier[key] = value;
    else if (earlier.count(key) != 0) value = earlier[key], ++replayed;
    // The parts of the welcome that is there now.
    for (const auto& [part, words] : earlier) {
      if (again) store_->put(part, words);
    }
    return true;
  };
  for (const Status& outcome : meet(kSecret, kPatience_s)) {
    ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  ASSERT_EQ(earlier.size(), 3U);
  again = true;
  for (const Status& outcome : meet(kSecret, 1.5)) EXPECT_FALSE(outcome.is_ok());
  EXPECT_GT(replayed, 0);
}

// He says go, read and done before the ranks do, in his own words and in theirs for another key. A rank
// that is held here must not be passed: the other goes on when it has come as far, and only then.
TEST_F(StoreWriter, MakesNobodyGoOnByHisOwnSigns) {
  std::string session;
  std::atomic<int> forged{0}, early{0};
  const auto key = [&](const char* sign) { return "nezha/" + session + sign; };
  const auto forge = [&](const char* sign, const std::string& words) {
    store_->put(key(sign), words);
    ++forged;
  };
  // Gives a rank that believes too much the time to show it.
  const auto hold_until = [&](const std::function<bool()>& passed) {
    for (int i = 0; i < 40 && !passed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    early += passed() ? 1 : 0;
  };
  store_->on_set = [&](const std::string& written, std::string& value) {
    context::WelcomeRecord welcome;
    const std::string_view record = std::string_view(value).substr(0, value.size() - wire::kMacBytes);
    if (written == "nezha/welcome" && session.empty() && context::decode(record, &welcome)) {
      session = welcome.session;
      forge("/read/1/1", "1");
      forge("/go", "1");
    } else if (written == key("/read/1/1") && !store_->wrote(written)) {
      hold_until([&] { return store_->wrote(key("/go")); });
      forge("/done/1", value);
    } else if (written == key("/go")) {
      hold_until([&] { return store_->wrote(key("/report/1")); });
    } else if (written == key("/done/1")) {
      hold_until([&] { return !store_->await("nezha/world", 0); });
    }
    return true;
  };
  for (const Status& outcome : meet(kSecret, kPatience_s)) {
    EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  EXPECT_EQ(forged, 3);
  EXPECT_EQ(early, 0);
}

TEST_F(StoreWriter, FindsNoWelcomeAfterTheMeeting) {
  for (const Status& outcome : meet("", kPatience_s)) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  expect_no_welcome_left();
}

// A rank that ends after it has read the welcome: rank 0 waits for it in vain.
TEST_F(StoreWriter, FindsNoWelcomeWhenARankIsLate) {
  std::atomic<int> failed{0};
  store_->on_set = [&](const std::string& key, std::string&) {
    const bool report = key.find("/report/1") != std::string::npos;
    failed += report ? 1 : 0;
    return !report;
  };
  for (const Status& outcome : meet("", 1)) EXPECT_FALSE(outcome.is_ok());
  EXPECT_EQ(failed, 1);
  expect_no_welcome_left();
}

// A rank that has joined and is gone before it reads anything.
TEST_F(StoreWriter, FindsNoWelcomeWhenTheJobFails) {
  {
    WatchedStore other;
    auto calls = other.callbacks();
    auto request = request_of(1, "", 0.2);
    request.callbacks = &calls;
    std::string words;
    std::thread alone([&] { EXPECT_FALSE(join(request).is_ok()); });
    ASSERT_TRUE(other.await("nezha/join/2/1", kPatience_s, &words));
    alone.join();
    store_->put("nezha/join/2/1", words);
  }
  const Status outcome = join(request_of(0, "", 1)).status();
  EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
  expect_no_welcome_left();
}

TEST_F(StoreWriter, IsNotTrustedWithEncryptionNorWhereASecretIsRequired) {
  for (const char* config : {"tls=on\n", "authentication=required\n"}) {
    const Status refused = join(request_of(0, config, 1)).status();
    EXPECT_EQ(refused.code(), Code::invalid_argument) << refused.to_string();
    EXPECT_NE(refused.message().find("NEZHA_SECRET_FILE"), std::string::npos) << refused.to_string();
    EXPECT_TRUE(store_->history().empty());
    for (const Status& outcome : meet(std::string(config) + kSecret, kPatience_s)) {
      EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    }
    store_ = std::make_unique<WatchedStore>();
  }
}

}  // namespace
}  // namespace nezha::testing
