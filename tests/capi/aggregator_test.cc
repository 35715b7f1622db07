// The C API of aggregation nodes: what a caller may get wrong, and a node that starts, counts and stops.
#include "nezha/aggregator.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "base/json.h"
#include "support/hostile_member.h"
#include "support/watchdog.h"

namespace nezha::testing {
namespace {

// Closed to others, as a key has to be.
class KeyFile {
 public:
  explicit KeyFile(const std::string& text, const char* name = "key") {
    path_ = ::testing::TempDir() + "nezha-" + name + "-" + std::to_string(getpid());
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0600);
  }
  ~KeyFile() { std::remove(path_.c_str()); }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

nezha_aggregator_options local() {
  static const KeyFile key("0123456789abcdef0123456789abcdef", "usual-key");
  nezha_aggregator_options options{};
  options.key_file = key.path();
  options.struct_size = sizeof(options);
  options.address = "127.0.0.1";
  options.threads = 1;
  return options;
}

std::string words_of_refusal(const nezha_aggregator_options& options, nezha_code expected) {
  nezha_aggregator_t node = nullptr;
  EXPECT_EQ(nezha_aggregator_start(&options, &node), expected);
  EXPECT_EQ(node, nullptr);
  return nezha_last_error();
}

JsonValue stats_of(nezha_aggregator_t node) {
  std::string text(1 << 16, '\0');
  size_t needed = 0;
  EXPECT_EQ(nezha_aggregator_stats(node, text.data(), text.size(), &needed), NEZHA_OK);
  text.resize(needed - 1);  // without the end of the string
  auto read = parse_json(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : JsonValue();
}


TEST(CApiAggregator, NullIsRefusedNotFollowed) {
  nezha_aggregator_t node = nullptr;
  const nezha_aggregator_options options = local();
  int port = 0;
  size_t needed = 0;
  EXPECT_EQ(nezha_aggregator_start(nullptr, &node), NEZHA_INVALID_ARGUMENT);
  EXPECT_EQ(nezha_aggregator_start(&options, nullptr), NEZHA_INVALID_ARGUMENT);
  EXPECT_EQ(nezha_aggregator_port(nullptr, &port), NEZHA_INVALID_ARGUMENT);
  EXPECT_EQ(nezha_aggregator_stats(nullptr, nullptr, 0, &needed), NEZHA_INVALID_ARGUMENT);
  nezha_aggregator_stop(nullptr);
}

TEST(CApiAggregator, SaysWhatIsWrongWithItsOptions) {
  nezha_aggregator_options options = local();
  options.struct_size = 3;
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("struct_size"), std::string::npos);
  options = local();
  options.port = 65536;
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("65536"), std::string::npos);
  options = local();
  options.address = "localhost";
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("localhost"), std::string::npos);
  options = local();
  options.device = "no-such-device";
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("no-such-device"),
            std::string::npos);
  options = local();
  options.key_file = "/no/such/key";
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("/no/such/key"),
            std::string::npos);
  options.key_file = nullptr;
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("no default key"), std::string::npos);
  for (const std::string& text : {std::string(), std::string("\n\n"), std::string(21, 'k') + "\n"}) {
    const KeyFile file(text);
    options.key_file = file.path();
    EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("128 are needed"),
              std::string::npos) << text.size();
  }
  const KeyFile open_to_others("0123456789abcdef0123456789abcdef");
  chmod(open_to_others.path(), 0644);
  options.key_file = open_to_others.path();
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("chmod 600"), std::string::npos);
}

TEST(CApiAggregator, TakenPort) {
  nezha_aggregator_t first = nullptr;
  nezha_aggregator_options options = local();
  ASSERT_EQ(nezha_aggregator_start(&options, &first), NEZHA_OK) << nezha_last_error();
  ASSERT_EQ(nezha_aggregator_port(first, &options.port), NEZHA_OK);
  ASSERT_GT(options.port, 0);
  const std::string words = words_of_refusal(options, NEZHA_EXHAUSTED);
  EXPECT_NE(words.find("port " + std::to_string(options.port)), std::string::npos) << words;
  EXPECT_NE(words.find("already"), std::string::npos) << words;
  nezha_aggregator_stop(first);
  // It is free again at once.
  ASSERT_EQ(nezha_aggregator_start(&options, &first), NEZHA_OK) << nezha_last_error();
  nezha_aggregator_stop(first);
}

TEST(CApiAggregator, KnowsItsKeyAndCountsStrangers) {
  Watchdog watchdog("aggregation node", 1);
  const std::string key = "22 characters and more";
  const KeyFile file(key + "\n");
  nezha_aggregator_options options = local();
  options.key_file = file.path();
  options.address = "127.1.0.1";
  options.threads = 0;
  nezha_aggregator_t node = nullptr;
  ASSERT_EQ(nezha_aggregator_start(&options, &node), NEZHA_OK) << nezha_last_error();
  int port = 0;
  ASSERT_EQ(nezha_aggregator_port(node, &port), NEZHA_OK);
  const aggregation::Ticket ticket{.job = 7, .ranks = 2, .nodes = 1, .nonce = 1};
  const auto at = static_cast<uint16_t>(port);
  HostileMember stranger(at, ticket, aggregation::job_key_of(wire::Secret{}, 7));
  EXPECT_FALSE(stranger.join(0));
  HostileMember member(at, ticket, aggregation::job_key_of(wire::secret_from_text(key), 7));
  EXPECT_TRUE(member.join(0));
  JsonValue stats = stats_of(node);
  while (stats.at("jobs").items().empty()) {
    std::this_thread::yield();
    stats = stats_of(node);
  }
  stats = stats_of(node);  // the listener is read before the jobs
  EXPECT_EQ(stats.at("port").integer_or(0), port);
  EXPECT_EQ(stats.at("connections").at("accepted").integer_or(0), 2);
  EXPECT_EQ(stats.at("connections").at("refused").integer_or(0), 1);
  ASSERT_EQ(stats.at("jobs").items().size(), 1U);
  EXPECT_EQ(stats.at("jobs").items()[0].at("job").integer_or(0), 7);
  nezha_aggregator_stop(node);
}

TEST(CApiAggregator, Topologies) {
  nezha_aggregator_options options = local();
  options.topology = "{\"nodes\": [{\"name\": \"a\", \"address\": \"127.0.0.1:1\"}]}";
  EXPECT_NE(words_of_refusal(options, NEZHA_INVALID_ARGUMENT).find("no node"), std::string::npos);
  options.name = "a";
  nezha_aggregator_t node = nullptr;
  ASSERT_EQ(nezha_aggregator_start(&options, &node), NEZHA_OK) << nezha_last_error();
  nezha_aggregator_stop(node);
  options.topology = "{\"nodes\": 5}";
  words_of_refusal(options, NEZHA_INVALID_ARGUMENT);
}

TEST(CApiAggregator, TextsFitOrSayWhatTheyNeed) {
  nezha_aggregator_t node = nullptr;
  const nezha_aggregator_options options = local();
  ASSERT_EQ(nezha_aggregator_start(&options, &node), NEZHA_OK) << nezha_last_error();
  char text[8];
  size_t needed = 0;
  EXPECT_EQ(nezha_aggregator_stats(node, text, sizeof(text), &needed), NEZHA_EXHAUSTED);
  EXPECT_GT(needed, sizeof(text));
  nezha_aggregator_stop(node);
}

TEST(CApiAggregator, IsTheParents) {
  nezha_aggregator_t node = nullptr;
  const nezha_aggregator_options options = local();
  ASSERT_EQ(nezha_aggregator_start(&options, &node), NEZHA_OK) << nezha_last_error();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int port = 0;
    const bool refused = nezha_aggregator_port(node, &port) == NEZHA_INVALID_ARGUMENT;
    nezha_aggregator_stop(node);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  int port = 0;
  EXPECT_EQ(nezha_aggregator_port(node, &port), NEZHA_OK);
  nezha_aggregator_stop(node);
}

}  // namespace
}  // namespace nezha::testing
