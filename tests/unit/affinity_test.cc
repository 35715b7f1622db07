// Lists of processors, and the affinity that is set and set back.
#include "context/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <vector>

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

cpu_set_t current() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

TEST(Affinity, HoldsInsideAndIsRestored) {
  const cpu_set_t before = current();
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  cpu_set_t inside;
  const Status answer = apply_affinity(std::to_string(cpu), [&] {
    inside = current();
    return error(Code::exhausted, "the answer of start");
  });
  EXPECT_EQ(answer.code(), Code::exhausted);
  EXPECT_EQ(CPU_COUNT(&inside), 1);
  EXPECT_TRUE(CPU_ISSET(cpu, &inside));
  const cpu_set_t after = current();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Affinity, ABadListStartsNothing) {
  bool started = false;
  const Status answer = apply_affinity("nonsense", [&] {
    started = true;
    return Status::ok();
  });
  EXPECT_EQ(answer.code(), Code::invalid_argument);
  EXPECT_FALSE(started);
}

}  // namespace
}  // namespace nezha::context
