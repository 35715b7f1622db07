// Files for people: names made from patterns, and replacing at once.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

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

}  // namespace
}  // namespace nezha
