// abort() from another thread, at any moment and into any call: every call on every rank returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 3;
constexpr int kAborts = 50;

// Calls something, again and again, until it ends with an error.
Status call_until_error(context::Communicator& comm, int kind, std::vector<float>& data) {
  for (;;) {
    Status outcome;
    switch (kind) {
      case 0:
        outcome = comm.all_reduce(data.data(), data.data(), data.size(), Dtype::float32,
                                  ReduceOp::max, {}, nullptr);
        break;
      case 1:  // nobody sends
        outcome = comm.receive(data.data(), 1, Dtype::float32, -1, 7, {}, nullptr);
        break;
      case 2:
        outcome = comm.broadcast(data.data(), data.size(), Dtype::float32, 1, {}, nullptr);
        break;
      default:  // not all ranks call shrink()
        outcome = comm.rank() == 2 ? comm.barrier({}, nullptr) : comm.shrink(0).status();
    }
    if (!outcome.is_ok()) return outcome;
  }
}

TEST(Abort, AtAnyMomentEveryCallOfEveryRankReturns) {
  World world({.ranks = kRanks, .rails = 2});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::array<std::atomic<Nanoseconds>, kAborts> aborted_at{};
  std::mutex mutex;
  std::vector<Nanoseconds> took;
  const auto outcomes = world.run([&](Member& self) -> Status {
    std::vector<float> data(20'000);
    for (int round = 0; round < kAborts; ++round) {
      self.doing("round " + std::to_string(round));
      const std::array<int, kRanks> all{0, 1, 2};
      auto comm = self.comm->create(all, "round " + std::to_string(round));
      if (!comm) return comm.status();
      std::thread aborter;
      std::atomic<bool> returned{false};
      std::mt19937_64 generator(static_cast<uint64_t>(round) + 1);
      const auto pause = std::chrono::microseconds(generator() % 4000);
      // In some rounds the others call after the abort.
      const bool late = round % 8 == 7 && self.rank != round % 2;
      if (self.rank == round % 2) {
        aborter = std::thread([&, round, pause] {
          std::this_thread::sleep_for(pause);
          aborted_at[static_cast<size_t>(round)] = system_clock().now();
          // An abort before shrink() is called is what shrink() is for: it goes on after it.
          do (*comm)->abort();
          while (round % 4 == 3 && !returned.load());
        });
      }
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const Status outcome = call_until_error(**comm, round % 4, data);
      returned = true;
      const Nanoseconds returned_at = system_clock().now();
      if (aborter.joinable()) aborter.join();
      EXPECT_EQ(outcome.code(), Code::aborted) << outcome.to_string();
      {
        std::lock_guard lock(mutex);
        took.push_back(returned_at - aborted_at[static_cast<size_t>(round)].load());
      }
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  ASSERT_EQ(took.size(), static_cast<size_t>(kRanks * kAborts));
  std::sort(took.begin(), took.end());
  RecordProperty("median_us", static_cast<int>(took[took.size() / 2] / kMicrosecond));
  RecordProperty("longest_us", static_cast<int>(took.back() / kMicrosecond));
}

}  // namespace
}  // namespace nezha::testing
