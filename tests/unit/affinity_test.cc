// Lists of processors, and the affinity of a thread: what was given is compared with what was asked for.
#include "context/affinity.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "support/captured_log.h"

namespace nezha::context {
namespace {

using Cpus = std::vector<int>;

TEST(CpuList, ReadsNumbersAndRanges) {
  EXPECT_EQ(*parse_cpu_list(""), Cpus());
  EXPECT_EQ(*parse_cpu_list("0"), Cpus({0}));
  EXPECT_EQ(*parse_cpu_list("0-3,8"), Cpus({0, 1, 2, 3, 8}));
  EXPECT_EQ(*parse_cpu_list("5,2-2"), Cpus({5, 2}));
  EXPECT_EQ(*parse_cpu_list("1023"), Cpus({1023}));
}

TEST(CpuList, RefusesEverythingElse) {
  for (const char* text : {"a", "-1", "3-1", "1-", "-", ",", "1,,2", ",1", "1.5", "0x3", " 1", "1 ",
                           "1-2-3", "1--2", "1024", "0-1024", "0-99999999999", "99999999999",
                           "1;2", "0-3,x"}) {
    const auto cpus = parse_cpu_list(text);
    ASSERT_FALSE(cpus.is_ok()) << text;
    EXPECT_EQ(cpus.status().code(), Code::invalid_argument) << text;
    EXPECT_NE(cpus.status().message().find("cpu_affinity"), std::string::npos);
  }
  EXPECT_NE(parse_cpu_list("0-3,x").status().message().find("'x'"), std::string::npos);
}

cpu_set_t of_thread(pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof(set), &set), 0);
  return set;
}

// A thread that waits until the test is over.
class Waiting {
 public:
  Waiting() : thread_([this] { over_.get_future().wait(); }) {}
  ~Waiting() {
    over_.set_value();
    thread_.join();
  }
  pthread_t handle() { return thread_.native_handle(); }

 private:
  std::promise<void> over_;
  std::thread thread_;
};

int first_cpu() {
  const cpu_set_t mine = of_thread(pthread_self());
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mine)) ++cpu;
  return cpu;
}

constexpr const char* kNotThere = "1022-1023";  // the last that a set can name

TEST(Affinity, IsTheThreadsAndNotTheCallers) {
  const testing::CapturedLog log;
  const cpu_set_t before = of_thread(pthread_self());
  Waiting other;
  ASSERT_TRUE(set_affinity(other.handle(), std::to_string(first_cpu())).is_ok());
  const cpu_set_t inside = of_thread(other.handle());
  EXPECT_EQ(CPU_COUNT(&inside), 1);
  EXPECT_TRUE(CPU_ISSET(first_cpu(), &inside));
  const cpu_set_t after = of_thread(pthread_self());
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_TRUE(log.lines().empty()) << log.lines()[0];
}

TEST(Affinity, AnEmptyListChangesNothing) {
  Waiting other;
  const cpu_set_t before = of_thread(other.handle());
  ASSERT_TRUE(set_affinity(other.handle(), "").is_ok());
  const cpu_set_t after = of_thread(other.handle());
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Affinity, ProcessorsThatAreNotGivenAreNamedOnce) {
  const testing::CapturedLog log;
  Waiting other;
  const std::string wanted = std::to_string(first_cpu()) + "," + kNotThere;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(set_affinity(other.handle(), wanted).is_ok());
  const auto lines = log.lines("cpu_affinity=" + wanted);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(" warn affinity: "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("runs on " + std::to_string(first_cpu()) + " only"), std::string::npos);
  EXPECT_NE(lines[0].find(std::string("not ") + kNotThere), std::string::npos) << lines[0];
}

TEST(Affinity, AListOfOthersOrNonsenseIsAnError) {
  Waiting other;
  for (const char* text : {kNotThere, "nonsense"}) {
    const Status answer = set_affinity(other.handle(), text);
    EXPECT_EQ(answer.code(), Code::invalid_argument) << text;
    EXPECT_NE(answer.message().find(text), std::string::npos) << answer.message();
  }
  const std::string advice = set_affinity(other.handle(), kNotThere).message();
  EXPECT_NE(advice.find("may use, such as " + std::to_string(first_cpu())), std::string::npos) << advice;
}

}  // namespace
}  // namespace nezha::context
