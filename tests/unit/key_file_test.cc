// The rule for secrets and keys: who may own their files, who may read them, and how much must be in
// them.
#include "wire/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "support/temp_directory.h"

namespace nezha::wire {
namespace {

class KeyFile : public ::testing::Test {
 protected:
  std::string file_with(const std::string& text, mode_t mode = 0600) {
    const std::string path = directory_.path() + "/key";
    unlink(path.c_str());
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  void expect_refused(const std::string& path, const std::string& words) {
    auto key = read_key_file("secret_file", path);
    ASSERT_FALSE(key.is_ok()) << words;
    EXPECT_EQ(key.status().code(), Code::invalid_argument);
    EXPECT_NE(key.status().message().find(words), std::string::npos) << key.status().message();
    EXPECT_NE(key.status().message().find("secret_file"), std::string::npos) << key.status().message();
  }

  const nezha::testing::TempDirectory directory_;
};

const std::string kHex(32, 'b');

TEST_F(KeyFile, Of128BitsAreEnough) {
  const std::string printable(22, 'k');
  std::string binary = "\x01";
  binary += std::string(15, '\xFE');
  for (const std::string& text : {kHex, printable, binary, kHex + "\n", "\n\t " + kHex + " \r\n"}) {
    auto key = read_key_file("secret_file", file_with(text));
    ASSERT_TRUE(key.is_ok()) << key.status().message();
    EXPECT_EQ(*key, secret_from_text(text));
    EXPECT_TRUE(key_from_text("secret", text).is_ok());
  }
}

TEST_F(KeyFile, LessIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string(" \t\r\n\n"), std::string("word\n"),
        std::string(31, 'b'), std::string(21, 'k'), std::string(15, '\xFE'),
        std::string(31, 'b') + std::string(100, '\n')}) {
    expect_refused(file_with(text), "128 are needed");
    const Status said = key_from_text("secret", text).status();
    EXPECT_EQ(said.code(), Code::invalid_argument);
    if (!trimmed_secret(text).empty()) {
      EXPECT_EQ(said.message().find(trimmed_secret(text)), std::string::npos) << "tells the secret";
    }
  }
  expect_refused(file_with(std::string(kKeyFileBytesMax + 1, 'k')), "larger than");
}

TEST_F(KeyFile, ThatOthersMayReadOrChangeIsRefused) {
  for (const mode_t mode : {0644, 0640, 0604, 0602, 0620, 0666}) {
    expect_refused(file_with(kHex, mode), "chmod 600");
  }
  for (const mode_t mode : {0600, 0400, 0700}) {
    EXPECT_TRUE(read_key_file("secret_file", file_with(kHex, mode)).is_ok()) << mode;
  }
}

TEST_F(KeyFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = file_with(kHex);
  ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  expect_refused(path, "belongs to user 4711");
}

TEST_F(KeyFile, ThatIsNoFileIsRefused) {
  expect_refused("", "is not set");
  expect_refused(directory_.path() + "/nothing", "cannot open");
  expect_refused(directory_.path(), "not a regular file");
  const std::string pipe = directory_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, "not a regular file");  // and nobody waits for its writer
}

}  // namespace
}  // namespace nezha::wire
