// Where flight dumps go, and the signal that asks for them.
#include "context/flight_dump.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/file.h"
#include "context/flight_signal.h"

namespace nezha::context {
namespace {

TEST(FlightPath, IsAFolderOrAFilePerRank) {
  EXPECT_EQ(flight_path("", 3), "./nezha_flight.3.json");
  EXPECT_EQ(flight_path("dumps", 3), "dumps/nezha_flight.3.json");
  EXPECT_EQ(flight_path("d/%h", 0), std::string("d/") + host_name() + "/nezha_flight.0.json");
  EXPECT_EQ(flight_path("d/%r.json", 12), "d/12.json");
  // A percent sign and an r are no rank: two ranks would write the same file.
  EXPECT_EQ(flight_path("100%%r", 1), "100%r/nezha_flight.1.json");
}

TEST(FlightSignal, HasTwoNames) {
  EXPECT_EQ(flight_signal_number("SIGUSR1"), SIGUSR1);
  EXPECT_EQ(flight_signal_number("SIGUSR2"), SIGUSR2);
  EXPECT_EQ(flight_signal_number("SIGKILL"), 0);
  EXPECT_EQ(flight_signal_number(""), 0);
  EXPECT_EQ(watch_flight_signal(SIGKILL).status().code(), Code::invalid_argument);
}

std::atomic<int> heard_before{0};

uint64_t marks(int descriptor) {
  uint64_t count = 0;
  return read(descriptor, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

TEST(FlightSignal, MarksOneDescriptorAndCallsWhoWasThereBefore) {
  std::signal(SIGUSR2, [](int) { heard_before.fetch_add(1); });
  auto first = watch_flight_signal(SIGUSR2);
  auto second = watch_flight_signal(SIGUSR2);
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  ASSERT_TRUE(second.is_ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(marks(*first), 0U);
  raise(SIGUSR2);
  raise(SIGUSR2);
  EXPECT_EQ(marks(*first), 2U);
  EXPECT_EQ(heard_before.load(), 2);
}

TEST(FlightSignal, AForkedChildMarksNothingOfItsParent) {
  auto descriptor = watch_flight_signal(SIGUSR2);
  ASSERT_TRUE(descriptor.is_ok());
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR2);  // caught, and nobody's
    _exit(0);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_TRUE(WIFEXITED(outcome));
  EXPECT_EQ(marks(*descriptor), 0U);
}

}  // namespace
}  // namespace nezha::context
