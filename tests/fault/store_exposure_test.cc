// What a core dump of a rank shows of the store in which it met: not its password, and not what proves
// who may read it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "aggregation/client/options.h"
#include "base/log.h"
#include "rendezvous/address.h"
#include "rendezvous/socket.h"
#include "rendezvous/store.h"
#include "support/hidden_words.h"

namespace nezha::testing {
namespace {

void expect_nowhere(const MemoryScan& scan, const char* when) {
  size_t looked_at = 0;
  for (const std::string& place : scan.places(&looked_at)) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Instrumented code saves registers there that just copied it. `make test-long` looks there, too.
    if (place.find("[stack]") != std::string::npos) continue;
#endif
    ADD_FAILURE() << when << ", in " << place;
  }
  EXPECT_GT(looked_at, size_t{1} << 20) << "nearly nothing was looked at";
}

MemoryScan scan_for(const Secret& secret) { return MemoryScan(secret.data(), secret.size()); }

// ------------------------------------------------------------------------------------------ passwords

// Says yes to everything, as a Redis server does to who has the password, and keeps nothing of it.
class Agreeing {
 public:
  Agreeing() : listener_(std::move(*rendezvous::listen_on("127.0.0.1", 0))) {
    thread_ = std::thread([this] {
      rendezvous::wait_for(listener_, POLLIN, deadline_after(system_clock(), kPatience_s));
      const Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      while (recv(client.get(), nullptr, 1 << 16, MSG_TRUNC) > 0) {
        ++asked_;
        send(client.get(), "+OK\r\n", 5, MSG_NOSIGNAL);
      }
    });
  }
  ~Agreeing() { thread_.join(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(rendezvous::port_of(listener_)); }
  int asked() const { return asked_; }

 private:
  Descriptor listener_;
  std::atomic<int> asked_{0};
  std::thread thread_;
};

class PasswordExposure : public ::testing::TestWithParam<size_t> {};

TEST_P(PasswordExposure, OfARedisServerInUseAndAfterwards) {
  const HiddenText password = fresh_text(GetParam());
  const MemoryScan scan = testing::scan_for(password);
  HiddenText address;
  Agreeing server;
  address.append("redis://worker:").append(password).append("@").append(server.address());
  {
    rendezvous::OpenOptions options;
    options.deadline = deadline_after(system_clock(), kPatience_s);
    auto store = rendezvous::open_store(address, options);
    ASSERT_TRUE(store.is_ok()) << store.status().to_string();
    EXPECT_TRUE((*store)->set("key", "value", options.deadline).is_ok());
    EXPECT_GE(server.asked(), 2) << "it was not asked to log in";
    expect_nowhere(scan, "while the store is in use");
  }
  expect_nowhere(scan, "afterwards");
  EXPECT_FALSE(rendezvous::open_store(address + "/no-number", {}).is_ok());
  expect_nowhere(scan, "when the address was refused");
}

// Eight letters are few enough to lie where a text itself does.
INSTANTIATE_TEST_SUITE_P(Letters, PasswordExposure, ::testing::Values(8, 32));

TEST(JobKeyExposure, IsWipedWhereARankHadIt) {
  const HiddenText digits = [] {
    HiddenText text = fresh_text(64);
    for (char& letter : text) letter = "0123456789abcdef"[letter - 'g'];
    return text;
  }();
  const MemoryScan scan = testing::scan_for(digits);
  HiddenText line("aggregator_job_key=0123456789abcdef:");
  line.append(digits).append("\n");
  Secret key;
  {
    auto config = load_config(line);
    ASSERT_TRUE(config.is_ok()) << config.status().to_string();
    auto read = aggregation::configured_job_key(*config);
    ASSERT_TRUE(read.is_ok()) << read.status().to_string();
    key = read->key;
    expect_nowhere(scan, "its text, while the configuration is there");
  }
  expect_nowhere(scan, "its text, afterwards");
  expect_nowhere(scan_for(key), "the key itself");
}

// --------------------------------------------------------------------------------------------- stores

TEST(StoreExposure, OfTheKeyThatOpensTheStore) {
  log::set_level(log::Level::error);
  const HiddenText text = fresh_text();
  const MemoryScan scan = scan_for(wire::store_key_of(wire::secret_from_text(text)));
  HiddenText line;
  line.append("secret=").append(text).append("\n");
  const Pair pair(line, fresh_tcp_store());
  EXPECT_TRUE(pair.works());
  expect_nowhere(scan, "while the job runs");
}

}  // namespace
}  // namespace nezha::testing
