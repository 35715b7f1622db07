// Addresses of stores: the forms that exist, and sentences for those that do not.
#include <gtest/gtest.h>

#include "conformance/store_kinds.h"
#include "redis/redis_address.h"
#include "rendezvous/address.h"

namespace nezha::rendezvous {
namespace {

StoreAddress parsed(const std::string& text, bool serve = false) {
  const auto address = parse_store_address(text, serve);
  EXPECT_TRUE(address.is_ok()) << address.status().to_string();
  return address ? address.value() : StoreAddress{};
}

RedisAddress parsed_redis(const std::string& text) {
  EXPECT_EQ(parsed(text).kind, StoreKind::redis);
  const auto address = parse_redis_address(text);
  EXPECT_TRUE(address.is_ok()) << address.status().to_string();
  return address ? address.value() : RedisAddress{};
}

// An address that is not refused, which is what the test is to find, is given up after one look.
Status complaint_of(const std::string& text) {
  OpenOptions options;
  options.deadline = past();
  options.patience = 0;
  const auto store = open_store(text, options);
  EXPECT_FALSE(store.is_ok()) << text;
  return store.status();
}

TEST(StoreAddress, Tcp) {
  EXPECT_EQ(parsed("tcp://10.0.0.1:29500").host, "10.0.0.1");
  EXPECT_EQ(parsed("tcp://10.0.0.1:29500").port, 29500);
  EXPECT_EQ(parsed("tcp://node-1.example:1").host, "node-1.example");
  EXPECT_EQ(parsed("tcp://[fe80::1%eth0]:80").host, "fe80::1%eth0");
  EXPECT_EQ(parsed("tcp://h:0", true).port, 0);
  EXPECT_EQ(host_and_port("::1", 5), "[::1]:5");
  EXPECT_EQ(host_and_port("h", 5), "h:5");
}

TEST(StoreAddress, Others) {
  EXPECT_EQ(parsed("file:///a/b").path, "/a/b");
  EXPECT_EQ(parsed("hash://name").path, "name");
}

TEST(StoreAddress, Redis) {
  const RedisAddress redis = parsed_redis("redis://us%40er:p%3Aw%2fd@[::1]:7000/4");
  EXPECT_EQ(redis.user, "us@er");
  EXPECT_EQ(redis.password, "p:w/d");
  EXPECT_EQ(redis.host, "::1");
  EXPECT_EQ(redis.port, 7000);
  EXPECT_EQ(redis.database, 4);
  EXPECT_FALSE(redis.tls);
  EXPECT_EQ(redis.ttl_s, 3600U);
  EXPECT_EQ(parsed_redis("redis://h").port, 6379);
  EXPECT_EQ(parsed_redis("redis://h/").database, 0);
  EXPECT_EQ(parsed_redis("redis://:pw@h").password, "pw");
}

TEST(StoreAddress, RedisOptions) {
  const RedisAddress secure =
      parsed_redis("rediss://:p@h:7/2?ca=/a%26b&cert=/c&key=/k&ttl=60&prefix=team%2F");
  EXPECT_TRUE(secure.tls);
  EXPECT_EQ(secure.password, "p");
  EXPECT_EQ(secure.tls_options.ca, "/a&b");
  EXPECT_EQ(secure.tls_options.certificate, "/c");
  EXPECT_EQ(secure.tls_options.key, "/k");
  EXPECT_FALSE(secure.tls_options.insecure);
  EXPECT_EQ(secure.ttl_s, 60U);
  EXPECT_EQ(secure.prefix, "team/");
  EXPECT_TRUE(parsed_redis("rediss://h?insecure=1").tls_options.insecure);
  const RedisAddress local = parsed_redis("redis+unix://u:p@/run/my%20redis.sock?db=5");
  EXPECT_EQ(local.path, "/run/my redis.sock");
  EXPECT_EQ(local.user, "u");
  EXPECT_EQ(local.database, 5);
  EXPECT_EQ(parsed_redis("redis://h?prefix=a@b").prefix, "a@b") << "'@' after '?' ends no credentials";
}

TEST(StoreAddress, RefusesTheRestAndShowsTheForms) {
  for (const char* text :
       {"", "tcp", "tcp://", "tcp://h", "tcp://:1", "tcp://h:", "tcp://h:x", "tcp://h:0",
        "tcp://h:65536", "tcp://h:-1", "tcp://h:1/x", "tcp://::1:80", "tcp://[::1", "tcp://[::1]",
        "tcp://[::1]80", "tcp://[h]:80", "tcp://h:1 ", "tcp://h\n:1", "file://", "file://relative",
        "hash://", "redis://", "redis://h:1/x", "redis://h/-1", "redis://pw@h", "redis://u:p%4@h",
        "redis://u:p%zz@h", "http://h:1", "h:1",
        "redis://u:@h", "redis://h?ttl=0", "redis://h?ttl=99999999", "redis://h?ttl", "redis://h?ttl=",
        "redis://h?x=1", "redis://h?ca=/c", "rediss://h?cert=/c", "rediss://h?insecure=yes",
        "rediss://h?insecure=1&ca=/c", "redis+unix://", "redis+unix://h:1", "redis+unix:///a%00b",
        "redis://h?db=x"}) {
    const Status refusal = complaint_of(text);
    EXPECT_EQ(refusal.code(), Code::invalid_argument) << text;
    EXPECT_NE(refusal.message().find("tcp://HOST:PORT"), std::string::npos) << refusal.message();
  }
  EXPECT_FALSE(parse_store_address(std::string(5000, 'x'), false).is_ok());
  EXPECT_FALSE(parse_store_address("tcp://" + std::string(300, 'h') + ":1", false).is_ok());
}

TEST(StoreAddress, PasswordsAreNotRepeated) {
  for (const char* text :
       {"redis://user:hunter2@h:x", "redis://u:hunter2@a@:1", "rediss://u:hunter2@h:0",
        "user:hunter2@h", "redis://u:hunter2%@h", "rediss://u:hunter2@h?what=1",
        "redis+unix://u:hunter2@relative", "rediss://u:hunter2@h/?cert=/c"}) {
    const Status refusal = complaint_of(text);
    EXPECT_EQ(refusal.message().find("hunter2"), std::string::npos) << refusal.message();
  }
}

TEST(FileStore, DirectoryThatCannotBeUsedIsRefused) {
  const auto store = open_store("file:///nonexistent/directory/here", {});
  EXPECT_EQ(store.status().code(), Code::invalid_argument);
  EXPECT_NE(store.status().message().find("/nonexistent/directory/here"), std::string::npos);
}

TEST(FileStore, ForgetsWhatIsOlderThanADay) {
  const nezha::testing::TempDirectory scratch;
  const std::string& directory = scratch.path();
  ASSERT_TRUE(opened("file://" + directory)->set("old", "1", test_deadline()).is_ok());
  namespace fs = std::filesystem;
  for (const auto& entry : fs::directory_iterator(directory)) {
    fs::last_write_time(entry, fs::last_write_time(entry) - std::chrono::hours(25));
  }
  ASSERT_TRUE(opened("file://" + directory)->set("new", "2", test_deadline()).is_ok());
  const auto store = opened("file://" + directory);
  EXPECT_EQ(store->get("old", past()).status().code(), Code::timed_out);
  EXPECT_TRUE(store->get("new", past()).is_ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1) << "nothing is left behind";
}

TEST(HashStore, TableEndsWithItsLastUser) {
  ASSERT_TRUE(opened("hash://once")->set("k", "v", test_deadline()).is_ok());
  EXPECT_EQ(opened("hash://once")->get("k", past()).status().code(), Code::timed_out);
}

TEST(CallbackStore, BadCallbacksAreErrors) {
  const auto none = open_callback_store({}, "");
  EXPECT_EQ(none->get("k", past()).status().code(), Code::unsupported);
  StoreCallbacks callbacks;
  callbacks.get = [](void*, const char*, void*, size_t* size, double) {
    *size = SIZE_MAX;
    return 0;
  };
  callbacks.set = [](void*, const char*, const void*, size_t, double) { return 99; };
  const auto wild = open_callback_store(callbacks, "");
  EXPECT_EQ(wild->get("k", past()).status().code(), Code::internal);
  EXPECT_EQ(wild->set("k", "v", past()).code(), Code::internal);
}

}  // namespace
}  // namespace nezha::rendezvous
