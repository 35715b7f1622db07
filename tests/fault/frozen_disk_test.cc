// A file system that does not answer, as a file server behind the network that failed: errors and
// deadlines come all the same, and ranks leave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "support/captured_log.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

// A folder on a file system whose server never answers: whoever asks for a file in it waits until the
// server is gone. Root may mount one.
class FrozenFolder {
 public:
  FrozenFolder() : server_(open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    const std::string options = "fd=" + std::to_string(server_) + ",rootmode=40000,user_id=" +
                                std::to_string(getuid()) + ",group_id=" + std::to_string(getgid());
    is_mounted_ = server_ >= 0 && mount("frozen", folder_.path().c_str(), "fuse",
                                        MS_NOSUID | MS_NODEV | MS_NOEXEC, options.c_str()) == 0;
  }
  ~FrozenFolder() {
    thaw();
    if (is_mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  FrozenFolder(const FrozenFolder&) = delete;
  FrozenFolder& operator=(const FrozenFolder&) = delete;

  bool is_mounted() const { return is_mounted_; }
  std::string path() const { return folder_.path(); }
  // Whoever waits gets an error.
  void thaw() {
    if (server_ >= 0) close(std::exchange(server_, -1));
  }

 private:
  const TempDirectory folder_;
  int server_ = -1;
  bool is_mounted_ = false;
};

Status sum_within(context::Communicator& comm, double timeout_s) {
  std::vector<float> data(1000, 1.0F);
  context::CallOptions options;
  options.timeout_s = timeout_s;
  return comm.all_reduce(data.data(), data.data(), data.size(), Dtype::float32, ReduceOp::sum, options,
                         nullptr);
}

TEST(FrozenDisk, ADumpOnItKeepsNoErrorAndNoDeadline) {
  FrozenFolder frozen;
  if (!frozen.is_mounted()) GTEST_SKIP() << "needs root and /dev/fuse";
  CapturedLog log;
  {
    World world({.ranks = 2, .config = "flight_dump=" + frozen.path() + "\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    log::set_level(log::Level::warn);  // worlds are quiet
    std::atomic<bool> failed{false};
    const auto outcomes = world.run([&](Member& self) {
      if (self.rank == 1) {
        while (!failed) std::this_thread::yield();
        return sum_within(*self.comm, 10);
      }
      const Status late = sum_within(*self.comm, 0.2);
      failed = true;
      return late;
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
    }
    // They are as before, except for the communicator that failed.
    for (int rank : {0, 1}) {
      EXPECT_EQ(sum_within(world.comm(rank), 10).code(), Code::timed_out);
      EXPECT_NE(world.comm(rank).context().flight_json().find("\"call\""), std::string::npos);
    }
    // The dump is still being written, and is not given up.
    EXPECT_FALSE(finish_file_work(0));
    EXPECT_TRUE(log.lines("flight dump").empty());
  }
  frozen.thaw();
  EXPECT_TRUE(finish_file_work(60 * kSecond));
  EXPECT_EQ(log.lines("has no flight dump").size(), 2U);
}

TEST(FrozenDisk, ATableOnItKeepsNobodyFromLeaving) {
  FrozenFolder frozen;
  if (!frozen.is_mounted()) GTEST_SKIP() << "needs root and /dev/fuse";
  CapturedLog log;
  const TempDirectory folder;
  const std::string link = folder.path() + "/tables";
  std::filesystem::create_symlink(folder.path(), link);
  {
    World world({.ranks = 2, .config = "policy=table\ntable_file=" + link + "/table.json\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    log::set_level(log::Level::warn);  // worlds are quiet
    std::filesystem::remove(link);
    std::filesystem::create_symlink(frozen.path(), link);
  }
  EXPECT_FALSE(finish_file_work(0));
  EXPECT_EQ(log.lines("is not written yet: its disk does not answer").size(), 2U);
  frozen.thaw();
  EXPECT_TRUE(finish_file_work(60 * kSecond));
  EXPECT_EQ(log.lines("table_file was not written").size(), 2U);
}

}  // namespace
}  // namespace nezha::testing
