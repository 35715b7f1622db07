// The file store's directory: only one that nobody else can write to.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/store_kinds.h"

namespace nezha::rendezvous {
namespace {

Status opening(const std::string& directory) {
  return open_store("file://" + directory, OpenOptions()).status();
}

TEST(FileStoreDirectory, OthersMayNotWriteToIt) {
  const nezha::testing::TempDirectory directory;
  EXPECT_TRUE(opening(directory.path()).is_ok());
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ASSERT_EQ(chmod(directory.path().c_str(), mode), 0);
    const Status refused = opening(directory.path());
    EXPECT_EQ(refused.code(), Code::invalid_argument) << mode;
    EXPECT_NE(refused.message().find("chmod go-w"), std::string::npos) << refused.to_string();
  }
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  EXPECT_TRUE(opening(directory.path()).is_ok());
  // What is made for a rank in a folder that is everybody's is its own.
  ASSERT_EQ(chmod(directory.path().c_str(), 01777), 0);
  EXPECT_TRUE(opening(directory.path() + "/new").is_ok());
}

TEST(FileStoreDirectory, AnotherUserDoesNotOwnIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a directory that is another user's";
  const nezha::testing::TempDirectory directory;
  ASSERT_EQ(chown(directory.path().c_str(), 12345, 12345), 0);
  const Status refused = opening(directory.path());
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("user 12345"), std::string::npos) << refused.to_string();
}

}  // namespace
}  // namespace nezha::rendezvous
