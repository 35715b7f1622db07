// Files for people: names made from patterns, and replacing at once.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/captured_log.h"
#include "support/temp_directory.h"

namespace nezha {
namespace {

class FileSuite : public ::testing::Test {
 protected:
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  const testing::TempDirectory directory_;
  const std::filesystem::path folder_ = directory_.path();
};

TEST(File, PatternsName) {
  EXPECT_EQ(expand_path("a/%r.json", 12), "a/12.json");
  EXPECT_EQ(expand_path("%r%%%r", 3), "3%3");
  EXPECT_EQ(expand_path("%p"), std::to_string(getpid()));
  EXPECT_EQ(expand_path("x-%h"), std::string("x-") + host_name());
  // What means nothing stays: a rank where there is none, an unknown letter, a lonely percent sign.
  EXPECT_EQ(expand_path("%r %q %"), "%r %q %");
  EXPECT_EQ(expand_path(""), "");
}

TEST_F(FileSuite, IsReplacedAndNothingIsLeftBeside) {
  const std::string path = folder_ / "table.json";
  ASSERT_TRUE(write_file(path, "first").is_ok());
  ASSERT_TRUE(write_file(path, "second").is_ok());
  EXPECT_EQ(content(path), "second");
  EXPECT_EQ(entries(), 1U);
  ASSERT_TRUE(write_file(path, "").is_ok());
  EXPECT_EQ(content(path), "");
}

TEST_F(FileSuite, AFailureSaysWhichFileAndLeavesTheOldOne) {
  const Status missing = write_file(folder_ / "no" / "such", "x");
  EXPECT_EQ(missing.code(), Code::invalid_argument);
  EXPECT_NE(missing.message().find("no/such"), std::string::npos) << missing.message();
  // A folder cannot be replaced by a file.
  std::filesystem::create_directory(folder_ / "taken");
  EXPECT_FALSE(write_file(folder_ / "taken", "x").is_ok());
  EXPECT_EQ(entries(), 1U);
}

// A link in the place of the file is replaced, not followed.
TEST_F(FileSuite, ALinkIsNotFollowed) {
  std::ofstream(folder_ / "victim") << "precious";
  std::filesystem::create_symlink(folder_ / "victim", folder_ / "dump");
  ASSERT_TRUE(write_file(folder_ / "dump", "text").is_ok());
  EXPECT_EQ(content(folder_ / "victim"), "precious");
  EXPECT_EQ(content(folder_ / "dump"), "text");
}

// A pipe has no writer here: whoever waited for one would hang.
TEST_F(FileSuite, OnlyRegularFilesAreRead) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder_.string(), std::string("/dev/zero")}) {
    for (const Status& refused :
         {read_file(path, 100).status(), read_file<HiddenText>(path, 100).status(),
          read_input_file(path, 100).status(), read_private_file(path, 100).status()}) {
      EXPECT_EQ(refused.code(), Code::invalid_argument);
      EXPECT_NE(refused.message().find("'" + path + "' is not a regular file"), std::string::npos)
          << refused.message();
    }
  }
}

TEST_F(FileSuite, ItIsSaidOnceWhereOthersCouldHaveWrittenAnInput) {
  const testing::CapturedLog log;
  const std::string path = folder_ / "table.json";
  std::ofstream(path) << "content";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(read_input_file(path, 100).value(), "content");
  EXPECT_TRUE(log.lines(path).empty());
  ASSERT_EQ(chmod(path.c_str(), 0646), 0);
  EXPECT_EQ(read_input_file(path, 100).value(), "content");
  EXPECT_EQ(read_input_file(path, 100).value(), "content");
  ASSERT_EQ(log.lines(path).size(), 1U);
  EXPECT_NE(log.lines(path)[0].find("can be written by others (mode 0646)"), std::string::npos)
      << log.lines(path)[0];
}

TEST_F(FileSuite, InputsOfAnotherUserAreDoubted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = folder_ / "table.json";
  std::ofstream(path) << "content";
  std::string doubt;
  EXPECT_TRUE(read_file(path, 100, &doubt).is_ok());
  EXPECT_EQ(doubt, "");
  ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  EXPECT_TRUE(read_file(path, 100, &doubt).is_ok());
  EXPECT_NE(doubt.find("belongs to user 4711"), std::string::npos) << doubt;
}

}  // namespace
}  // namespace nezha
