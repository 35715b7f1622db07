// Secrets in memory: wiped, and in no core dump.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/secret.h"

namespace nezha {
namespace {

Secret::Bytes some_bytes() {
  Secret::Bytes bytes;
  bytes.fill(std::byte{0x5C});
  return bytes;
}

// The kernel's flags of the mapping that `address` is in; "dd": not dumped.
std::string flags_of(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uintptr_t first = 0, last = 0;
    char dash = 0;
    if (fields >> std::hex >> first >> dash >> last && dash == '-') {
      inside = first <= wanted && wanted < last;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return "";
}

TEST(SecretMemory, IsWipedAtTheEnd) {
  auto secret = std::make_unique<Secret>(some_bytes());
  // Its place stays mapped, for the next.
  const volatile std::byte* const place = secret->data();
  EXPECT_EQ(std::to_integer<int>(place[31]), 0x5C);
  secret.reset();
  for (size_t i = 0; i < kSecretBytes; ++i) EXPECT_EQ(std::to_integer<int>(place[i]), 0);
}

TEST(SecretMemory, WipesWhereItCameFrom) {
  Secret::Bytes bytes = some_bytes();
  const Secret secret(std::move(bytes));
  EXPECT_EQ(bytes, Secret::Bytes{});
  EXPECT_EQ(*secret.begin(), std::byte{0x5C});
}

TEST(SecretMemory, IsInNoCoreDump) {
  const Secret secret(some_bytes());
  const int elsewhere = 0;
  const std::string other = flags_of(&elsewhere);
  if (other.empty()) GTEST_SKIP() << "the kernel does not tell about its mappings";
  EXPECT_EQ(other.find(" dd"), std::string::npos) << other;
  EXPECT_NE(flags_of(secret.data()).find(" dd"), std::string::npos) << flags_of(secret.data());
}

TEST(SecretMemory, CopiesAreApart) {
  Secret one(some_bytes());
  Secret two = one;
  EXPECT_EQ(one, two);
  *two.begin() = std::byte{1};
  EXPECT_NE(one, two);
  one = two;
  EXPECT_EQ(one, two);
  EXPECT_NE(one.data(), two.data());
  EXPECT_EQ(Secret(), Secret());
  EXPECT_NE(one, Secret());
}

TEST(SecretMemory, ManyHaveRoom) {
  std::vector<Secret> many(1000, Secret(some_bytes()));
  for (const Secret& each : many) EXPECT_EQ(each, many.front());
}

}  // namespace
}  // namespace nezha
