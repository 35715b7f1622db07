// Addresses of stores: the forms that exist, and sentences for those that do not.
#include <gtest/gtest.h>

#include "conformance/store_kinds.h"
#include "rendezvous/address.h"

namespace nezha::rendezvous {
namespace {

StoreAddress parsed(const std::string& text, bool serve = false) {
  const auto address = parse_store_address(text, serve);
  EXPECT_TRUE(address.is_ok()) << address.status().to_string();
  return address ? address.value() : StoreAddress{};
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
  const StoreAddress redis = parsed("redis://us%40er:p%3Aw%2fd@[::1]:7000/4");
  EXPECT_EQ(redis.redis.user, "us@er");
  EXPECT_EQ(redis.redis.password, "p:w/d");
  EXPECT_EQ(redis.host, "::1");
  EXPECT_EQ(redis.port, 7000);
  EXPECT_EQ(redis.redis.database, 4);
  EXPECT_FALSE(redis.redis.tls);
  EXPECT_EQ(redis.redis.ttl_s, 3600U);
  EXPECT_EQ(parsed("redis://h").port, 6379);
  EXPECT_EQ(parsed("redis://h/").redis.database, 0);
  EXPECT_EQ(parsed("redis://:pw@h").redis.password, "pw");
}

TEST(StoreAddress, RedisOptions) {
  const StoreAddress secure =
      parsed("rediss://:p@h:7/2?ca=/a%26b&cert=/c&key=/k&ttl=60&prefix=team%2F");
  EXPECT_TRUE(secure.redis.tls);
  EXPECT_EQ(secure.redis.password, "p");
  EXPECT_EQ(secure.redis.tls_options.ca, "/a&b");
  EXPECT_EQ(secure.redis.tls_options.certificate, "/c");
  EXPECT_EQ(secure.redis.tls_options.key, "/k");
  EXPECT_FALSE(secure.redis.tls_options.insecure);
  EXPECT_EQ(secure.redis.ttl_s, 60U);
  EXPECT_EQ(secure.prefix, "team/");
  EXPECT_TRUE(parsed("rediss://h?insecure=1").redis.tls_options.insecure);
  const StoreAddress local = parsed("redis+unix://u:p@/run/my%20redis.sock?db=5");
  EXPECT_EQ(local.path, "/run/my redis.sock");
  EXPECT_EQ(local.redis.user, "u");
  EXPECT_EQ(local.redis.database, 5);
  EXPECT_EQ(parsed("redis://h?prefix=a@b").prefix, "a@b") << "'@' after '?' ends no credentials";
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
    const auto address = parse_store_address(text, false);
    ASSERT_FALSE(address.is_ok()) << text;
    EXPECT_EQ(address.status().code(), Code::invalid_argument) << text;
    EXPECT_NE(address.status().message().find("tcp://HOST:PORT"), std::string::npos);
  }
  EXPECT_FALSE(parse_store_address(std::string(5000, 'x'), false).is_ok());
  EXPECT_FALSE(parse_store_address("tcp://" + std::string(300, 'h') + ":1", false).is_ok());
}

TEST(StoreAddress, PasswordsAreNotRepeated) {
  for (const char* text :
       {"redis://user:hunter2@h:x", "redis://u:hunter2@a@:1", "rediss://u:hunter2@h:0",
        "user:hunter2@h", "redis://u:hunter2%@h", "rediss://u:hunter2@h?what=1",
        "redis+unix://u:hunter2@relative", "rediss://u:hunter2@h/?cert=/c"}) {
    const auto address = parse_store_address(text, false);
    ASSERT_FALSE(address.is_ok()) << text;
    EXPECT_EQ(address.status().message().find("hunter2"), std::string::npos)
        << address.status().message();
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
