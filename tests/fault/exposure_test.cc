// What a job shows to others: the ports it opens, and everything it writes down. No port is open on
// an address that is not a rail's, and the job's secret is in nothing that can be read later.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "context/bootstrap.h"
#include "support/sockets.h"
#include "support/watched_store.h"
#include "support/world.h"
#include "wire/handshake.h"

namespace nezha::testing {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "0100007F:1F90" of every listening socket of this network namespace, IPv4 and IPv6.
std::set<std::string> listening() {
  std::set<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(content_of(table));
    std::string line;
    std::getline(lines, line);  // the heading
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state;
      fields >> number >> local >> remote >> state;
      if (state == "0A") found.insert(local);
    }
  }
  return found;
}

std::string hex(const wire::Secret& secret, bool capitals) {
  std::string text;
  char digits[3];
  for (const std::byte byte : secret) {
    std::snprintf(digits, sizeof(digits), capitals ? "%02X" : "%02x", std::to_integer<unsigned>(byte));
    text += digits;
  }
  return text;
}

std::string bytes_of(const wire::Secret& secret) {
  return {reinterpret_cast<const char*>(secret.data()), secret.size()};
}

Status work(context::Communicator& comm) {
  std::vector<float> data(1000, 1);
  return comm.all_reduce(data.data(), data.data(), data.size(), Dtype::float32, ReduceOp::sum, {},
                         nullptr);
}

// While the job forms and while it runs, only the rails' addresses listen. 127.3.0.1 is no rail: a
// wildcard would answer there, too.
TEST(Exposure, ListensOnTheRailsAddressesOnly) {
  const std::set<std::string> before = listening();
  World world({.ranks = 2, .rails = 2, .config = "", .timeout_s = kPatience_s / 2});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  for (const Status& outcome : world.run([](Member& me) { return work(*me.comm); })) {
    ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  const std::vector<int> first = listening_ports_of("127.1.0.1");
  const std::vector<int> second = listening_ports_of("127.2.0.1");
  EXPECT_TRUE(listening_ports_of("0.0.0.0").empty());
  std::set<std::string> mine;
  const auto add = [&](const char* address, const std::vector<int>& ports) {
    for (const int port : ports) {
      char name[32];
      std::snprintf(name, sizeof(name), "%s:%04X", address, static_cast<unsigned>(port));
      mine.insert(name);
    }
  };
  add("0100017F", first);
  add("0100027F", second);
  // What the kernel says is open now and was not before, of this process or another.
  for (const std::string& address : listening()) {
    const bool wildcard = address.starts_with("00000000:") ||
                          address.starts_with("00000000000000000000000000000000:");
    if (before.count(address) == 0 && wildcard) {
      const int port = std::stoi(address.substr(address.find(':') + 1), nullptr, 16);
      EXPECT_EQ(std::count(first.begin(), first.end(), port), 0) << address;
      EXPECT_EQ(std::count(second.begin(), second.end(), port), 0) << address;
    }
  }
  EXPECT_FALSE(mine.empty());
  for (const std::string& address : mine) EXPECT_EQ(listening().count(address), 1u) << address;
}

// Everything that a rank tells about itself, in one text.
std::string told_by(World& world) {
  std::string told;
  for (int rank = 0; rank < world.size(); ++rank) {
    told += world.comm(rank).context().rails_json() + world.comm(rank).context().stats_json();
    told += world.comm(rank).context().config().to_json();
    for (const std::string& warning : world.comm(rank).context().config().warnings) told += warning;
    told += world.comm(rank).context().config().agreed_fingerprint_text();
  }
  return told;
}

void expect_hidden(const std::string& text, const std::string& secret, const std::string& where) {
  ASSERT_GE(secret.size(), 16u);
  EXPECT_EQ(text.find(secret), std::string::npos) << "the secret is in " << where;
}

TEST(Exposure, AConfiguredSecretIsWrittenNowhere) {
  const std::string word = "a-word-that-nobody-else-may-know";
  const std::string path = ::testing::TempDir() + "exposure-" + std::to_string(getpid()) + ".log";
  std::string told;
  {
    World world({.ranks = 2, .rails = 2,
                 .config = "secret=" + word + "\nlog_level=trace\nlog_file=" + path + "\n",
                 .timeout_s = kPatience_s / 2});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    for (const Status& outcome : world.run([](Member& me) { return work(*me.comm); })) {
      ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
    }
    told = told_by(world);
    break_rail("127.1.0.1");  // failures say a lot
    world.run([](Member& me) { return work(*me.comm); });
    break_rail("127.2.0.1");
    for (const Status& outcome : world.run([](Member& me) { return work(*me.comm); })) {
      told += outcome.to_string();
    }
    told += told_by(world);
  }
  // One whose secret differs is told so, and not what it is.
  context::ContextRequest bad;
  bad.world_size = 2;
  bad.store = fresh_store();
  bad.timeout_s = 0.05;
  bad.config = loopback_config(1) + "secret=" + word + "\nno_such_field=1\n";
  told += join(bad).status().to_string();
  bad.config = loopback_config(1) + "secret_file=" + word + "-is-no-file\nsecret=" + word + "\n";
  told += join(bad).status().to_string();
  const std::string log = content_of(path);
  EXPECT_GT(log.size(), 100u) << "the log is empty, so it proves nothing";
  const wire::Secret key = wire::secret_from_text(word);
  for (const std::string& form : {word, bytes_of(key), hex(key, false), hex(key, true)}) {
    expect_hidden(log, form, "the log");
    expect_hidden(told, form, "what ranks tell");
    expect_hidden(content_of("/proc/self/cmdline"), form, "the command line");
  }
  unlink(path.c_str());
}

// The secret that a job makes for itself is told each rank in a way that only this rank understands: of
// what stays in a file or an agent, nothing is of use to whoever reads it.
TEST(Exposure, AMadeSecretIsHiddenInTheStore) {
  constexpr int kMembers = 3;
  WatchedStore store;
  const rendezvous::StoreCallbacks callbacks = store.callbacks();
  Result<context::Session> sessions[kMembers] = {Status(), Status(), Status()};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kMembers; ++rank) {
    threads.emplace_back([&, rank] {
      const Config config;
      context::BootstrapRequest request;
      request.rank = rank;
      request.world_size = kMembers;
      request.deadline = deadline_after(system_clock(), kPatience_s);
      const auto mine = rendezvous::open_callback_store(callbacks, "job/");
      sessions[rank] = context::Bootstrap(*mine, config, request).meet();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> told;
  context::Welcome welcome;
  for (const std::string& value : store.history()) {
    context::WelcomePart part;
    context::Welcome head;
    if (context::begin(value, &head)) welcome = head;
    if (!context::decode(value, &part)) continue;
    ASSERT_EQ(part.entries.size(), size_t{kMembers});
    ASSERT_EQ(context::add_part(value, kMembers, &welcome), "");
    for (const auto& entry : part.entries) told.insert(entry.told);
  }
  // Nothing for rank 0, which made it, and to each of the others something else.
  EXPECT_EQ(told.size(), size_t{kMembers});
  for (auto& session : sessions) {
    ASSERT_TRUE(session.is_ok()) << session.status().to_string();
    EXPECT_EQ(session->secret, sessions[0]->secret);
    for (const std::string& words : told) {
      if (words.empty()) continue;
      wire::Secret as_it_stands;
      std::memcpy(as_it_stands.data(), words.data(), words.size());
      EXPECT_FALSE(session->secret == wire::session_secret_of(as_it_stands, welcome.bytes));
    }
  }
}

}  // namespace
}  // namespace nezha::testing
