// A disk that is full, and a process that may write no larger files: what was there stays, and the
// process goes on.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "support/captured_log.h"
#include "support/temp_directory.h"

namespace nezha {
namespace {

using testing::CapturedLog;
using testing::TempDirectory;

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Beyond it the kernel sends SIGXFSZ, which would end this process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit low{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

// `to_disk` as tables are written, and without as dumps are; here and on the thread for files.
void expect_the_old_file(const std::string& folder, int reason) {
  const std::string path = folder + "/table";
  const std::string large(1 << 20, 'x');
  for (const bool to_disk : {false, true}) {
    const Status written = write_file(path, large, to_disk);
    EXPECT_EQ(written.code(), Code::invalid_argument) << written.to_string();
    EXPECT_EQ(written.os_errno, reason) << written.to_string();
    EXPECT_NE(written.message().find(path), std::string::npos) << written.to_string();
  }
  Status later;
  ASSERT_TRUE(post_file_work([&] { later = write_file(path, large); }));
  ASSERT_TRUE(finish_file_work(60 * kSecond));
  EXPECT_EQ(later.os_errno, reason) << later.to_string();
  EXPECT_EQ(*read_file(path, 100), "old");
  EXPECT_EQ(files_in(folder), 1U);  // no half of a new one
}

TEST(FullDisk, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  const TempDirectory folder;
  ASSERT_TRUE(write_file(folder.path() + "/table", "old").is_ok());
  const FileSizeLimit limit(64 * 1024);
  expect_the_old_file(folder.path(), EFBIG);
}

TEST(FullDisk, WithoutRoomTheOldFileStays) {
  const TempDirectory folder;
  if (mount("tiny", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "needs root";
  EXPECT_TRUE(write_file(folder.path() + "/table", "old").is_ok());
  expect_the_old_file(folder.path(), ENOSPC);
  umount2(folder.path().c_str(), MNT_DETACH);
}

TEST(FullDisk, LinesOfTheLogAreLostAndNothingElse) {
  CapturedLog log;
  NEZHA_LOG(warn, "x", "before");
  ASSERT_TRUE(log::set_file("/dev/full").is_ok());
  for (int i = 0; i < 100; ++i) NEZHA_LOG(warn, "x", "lost");
  EXPECT_TRUE(log::finish(60 * kSecond));
  ASSERT_TRUE(log::set_file(log.path()).is_ok());
  NEZHA_LOG(warn, "x", "behind");
  EXPECT_EQ(log.lines().size(), 2U);
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()) + 10);
    NEZHA_LOG(warn, "x", "beyond the limit");
    EXPECT_TRUE(log::finish(60 * kSecond));
  }
  NEZHA_LOG(warn, "x", "behind it");
  EXPECT_EQ(log.lines("behind").size(), 2U);
}

}  // namespace
}  // namespace nezha
