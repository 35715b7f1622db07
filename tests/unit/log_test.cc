// base/log: levels, files, ranks, and text that a stranger chose.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/log_sink.h"
#include "support/captured_log.h"

namespace nezha {
namespace {

class Log : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::info); }
  void TearDown() override { log::set_level(log::Level::warn); }

  std::vector<std::string> lines() const { return captured_.lines(); }

  testing::CapturedLog captured_;
};

struct Heard {
  log::Level level;
  int rank;
  std::string subsystem, text;
};
std::vector<Heard> heard;

TEST_F(Log, ASinkGetsThePartsOfALineAndANamedFileTheLine) {
  heard.clear();
  log::set_sink([](log::Level level, int rank, const char* subsystem, const char* text) {
    heard.push_back({level, rank, subsystem, text});
  });
  {
    const log::RankScope scope(2);
    NEZHA_LOG(warn, "tcp", "rail\n%s", "eth1");
  }
  NEZHA_LOG(debug, "tcp", "not said");
  log::set_sink(nullptr);
  NEZHA_LOG(warn, "tcp", "later");
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].level, log::Level::warn);
  EXPECT_EQ(heard[0].rank, 2);
  EXPECT_EQ(heard[0].subsystem, "tcp");
  EXPECT_EQ(heard[0].text, "rail?eth1");
  EXPECT_EQ(lines().size(), 2u);
}

// A pipe takes 64 KiB; whoever says more than that must not wait for its reader.
TEST_F(Log, APipeThatNobodyReadsHoldsUpNobodyAndSaysWhatItMissed) {
  constexpr int kSaid = 4000;
  const std::string path = ::testing::TempDir() + "nezha-log-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(log::set_file(path).is_ok());
  for (int i = 0; i < kSaid; ++i) NEZHA_LOG(warn, "x", "number %06d", i);
  EXPECT_FALSE(log::finish(0));
  std::string said;
  while (!log::finish(0)) {
    std::array<char, 4096> part;
    const ssize_t got = read(reader, part.data(), part.size());
    if (got > 0) said.append(part.data(), static_cast<size_t>(got));
  }
  ASSERT_TRUE(log::set_file(captured_.path()).is_ok());
  std::array<char, 4096> part;
  for (ssize_t got; (got = read(reader, part.data(), part.size())) > 0;) {
    said.append(part.data(), static_cast<size_t>(got));
  }
  close(reader);
  std::filesystem::remove(path);
  std::istringstream lines(said);
  int next = 0, dropped = 0;
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("number "); at != std::string::npos) {
      EXPECT_EQ(std::stoi(line.substr(at + 7)), next++) << line;
    } else {
      ASSERT_NE(line.find("warn log: "), std::string::npos) << line;
      ASSERT_NE(line.find("lines were dropped while"), std::string::npos) << line;
      dropped += std::stoi(line.substr(line.find("warn log: ") + 10));
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(next + dropped, kSaid);
}

// Nothing is flushed behind a crash. A child of fork() has a thread for its lines of its own.
TEST_F(Log, WhatWasSaidBeforeACrashIsWritten) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process with threads";
#endif
  constexpr int kSaid = 100;
  NEZHA_LOG(warn, "x", "before");
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kSaid; ++i) NEZHA_LOG(warn, "x", "number %d", i);
    kill(getpid(), SIGKILL);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_TRUE(WIFSIGNALED(outcome) && WTERMSIG(outcome) == SIGKILL) << outcome;
  // The caller waits for each line for 10 ms only; a busy machine may take longer with some.
  EXPECT_GE(captured_.lines("number").size(), size_t{kSaid} / 2);
}

TEST_F(Log, WhatHoldsForGoodIsSaidOnce) {
  for (int i = 0; i < 3; ++i) log::warn_once("x", "the same text");
  log::warn_once("x", "another 100% text");
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_TRUE(lines()[0].ends_with(" warn x: the same text")) << lines()[0];
  EXPECT_TRUE(lines()[1].ends_with("another 100% text")) << lines()[1];
}

TEST_F(Log, LineHasTimeProcessLevelSubsystemAndText) {
  NEZHA_LOG(warn, "tcp", "rail %s: %d", "eth1", 7);
  ASSERT_EQ(lines().size(), 1u);
  const std::string line = lines()[0];
  EXPECT_TRUE(line.ends_with(" warn tcp: rail eth1: 7")) << line;
  EXPECT_NE(line.find(":" + std::to_string(getpid()) + " "), std::string::npos) << line;
  EXPECT_EQ(line.find("[rank"), std::string::npos) << line;
  EXPECT_EQ(line[10], 'T');
}

TEST_F(Log, LevelThatIsOffEvaluatesNothing) {
  int evaluated = 0;
  NEZHA_LOG(debug, "x", "%d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  NEZHA_LOG(info, "x", "%d", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(Log, RankBelongsToTheThreadAndTheScope) {
  {
    const log::RankScope outer(3);
    {
      const log::RankScope inner(4);
      NEZHA_LOG(info, "x", "a");
    }
    NEZHA_LOG(info, "x", "b");
    std::thread([] { NEZHA_LOG(info, "x", "c"); }).join();
  }
  NEZHA_LOG(info, "x", "d");
  const auto all = lines();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_NE(all[0].find("[rank 4] info x: a"), std::string::npos);
  EXPECT_NE(all[1].find("[rank 3] info x: b"), std::string::npos);
  EXPECT_EQ(all[2].find("[rank"), std::string::npos);
  EXPECT_EQ(all[3].find("[rank"), std::string::npos);
}

TEST_F(Log, StrangersTextStaysOneBoundedLine) {
  NEZHA_LOG(info, "x", "%s", "a\nforged\x1b[31m\x7f");
  NEZHA_LOG(info, "x", "%s", std::string(100000, 'y').c_str());
  NEZHA_LOG(info, "x", "%s", "\xC2\x9B" "31m\x9B" "31m gr\xC3\xBC" "n");
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[2].ends_with("??31m?31m gr\xC3\xBC" "n")) << all[2];
  EXPECT_TRUE(all[0].ends_with("a?forged?[31m?")) << all[0];
  EXPECT_LT(all[1].size(), 2048u);
}

TEST_F(Log, ThreadsNeverMixLines) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        NEZHA_LOG(info, "x", "%s", std::string(50, static_cast<char>('a' + t)).c_str());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto all = lines();
  ASSERT_EQ(all.size(), 1600u);
  for (const std::string& line : all) {
    const std::string text = line.substr(line.rfind(' ') + 1);
    EXPECT_EQ(text, std::string(50, text[0]));
  }
}

TEST_F(Log, FileNameTakesHostAndProcess) {
  ASSERT_TRUE(log::set_file(captured_.path() + ".%p.%%").is_ok());
  EXPECT_TRUE(std::filesystem::remove(captured_.path() + "." + std::to_string(getpid()) + ".%"));
}

TEST_F(Log, FileThatCannotBeOpenedIsRefusedAndChangesNothing) {
  const Status status = log::set_file("/nonexistent/log");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("/nonexistent/log"), std::string::npos);
  NEZHA_LOG(info, "x", "still here");
  EXPECT_EQ(lines().size(), 1u);
}

// Links in /tmp are how one user makes another write where he did not mean to.
TEST_F(Log, LinksOfOthersAreNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a link that is another user's";
  const std::string target = captured_.path() + ".target";
  const std::string link = captured_.path() + ".link";
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
  const Status status = log::set_file(link);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("another user"), std::string::npos) << status.message();
  EXPECT_NE(access(target.c_str(), F_OK), 0) << "the link was followed";
  // One's own is a convenience, like /dev/stderr.
  ASSERT_EQ(lchown(link.c_str(), 0, 0), 0);
  EXPECT_TRUE(log::set_file(link).is_ok());
  unlink(link.c_str());
  unlink(target.c_str());
}

TEST_F(Log, FilesOfOthersAreNotWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file that is another user's";
  const std::string path = captured_.path() + ".foreign";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0666);
  ASSERT_EQ(fchown(file, 12345, 12345), 0);
  close(file);
  EXPECT_EQ(log::set_file(path).code(), Code::invalid_argument);
  unlink(path.c_str());
}

TEST_F(Log, APipeThatNobodyReadsDoesNotHoldTheProgramUp) {
  const std::string path = captured_.path() + ".pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(log::set_file(path).code(), Code::invalid_argument);
  unlink(path.c_str());
}

TEST_F(Log, StartTakesLevelAndFileAndTellsEachWarningOnce) {
  Config config;
  config.log_level = "debug";
  config.log_file = captured_.path() + ".start";
  config.warnings = {"one warning", "one warning"};
  ASSERT_TRUE(log::start(config).is_ok());
  ASSERT_TRUE(log::start(config).is_ok());
  EXPECT_TRUE(log::enabled(log::Level::debug));
  std::ifstream file(config.log_file);
  int count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  EXPECT_EQ(count, 1);
  std::filesystem::remove(config.log_file);
  ASSERT_TRUE(log::start(Config{}).is_ok());
}

TEST(LogLevel, NamesRoundTrip) {
  for (int i = 0; i < 5; ++i) {
    const auto level = static_cast<log::Level>(i);
    EXPECT_EQ(log::level_from_name(log::name_of(level)), level);
  }
  EXPECT_FALSE(log::level_from_name("loud"));
  EXPECT_EQ(log::name_of(static_cast<log::Level>(9)), "unknown");
}

}  // namespace
}  // namespace nezha
