// Ranks that do not do their part: a missing call, an abort, leaving early.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/world.h"

namespace nezha::testing {
namespace {

Status reduce(context::Communicator& comm, uint64_t count, double timeout_s = 0,
              engine::Work* work = nullptr) {
  static thread_local std::vector<float> data;
  data.assign(count, 1.0F);
  context::CallOptions options;
  options.timeout_s = timeout_s;
  return comm.all_reduce(data.data(), data.data(), count, Dtype::float32, ReduceOp::sum, options,
                         work);
}

bool contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// Among more ranks a long operation may name one that itself waits for the absent one.
TEST(MissingCall, TheDeadlinesErrorNamesTheAbsentRank) {
  for (const uint64_t count : {1, 400'000}) {
    World world({.ranks = 2});
    std::atomic<bool> failed{false};
    const auto outcomes = world.run([&](Member& self) {
      if (self.rank == 0) {
        const Status outcome = reduce(*self.comm, count, 0.3);
        failed.store(true);
        return outcome;
      }
      while (!failed.load()) std::this_thread::yield();
      // The error was told: whoever comes late hears the same. Rank 0's data may have come before
      // its error, and one element needs no more than that: then it is the next operation's.
      const Status late = reduce(*self.comm, count);
      return late.is_ok() ? reduce(*self.comm, count) : late;
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, "waiting for rank 1;")) << outcome.to_string();
    }
  }
}

TEST(Abort, ReturnsEverywhere) {
  for (const int aborter : {0, 2}) {
    World world({.ranks = 3, .rails = 2});
    const auto outcomes = world.run([&](Member& self) {
      if (self.rank == aborter) {
        self.comm->abort();
        return self.comm->barrier({}, nullptr);
      }
      const Status first = reduce(*self.comm, 300'000);
      const Status second = self.comm->barrier({}, nullptr);
      EXPECT_EQ(first.message(), second.message());
      return first;
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::aborted) << outcome.to_string();
      EXPECT_TRUE(contains(outcome, "rank " + std::to_string(aborter) + " aborted"))
          << outcome.to_string();
    }
  }
}

TEST(Abort, FromAnotherThreadWhileTheCallerWaits) {
  World world({.ranks = 2});
  std::atomic<bool> waiting{false};
  const auto outcomes = world.run([&](Member& self) {
    if (self.rank == 1) {
      // Never takes part: only the abort ends rank 0's call, and this one.
      while (!waiting.load()) std::this_thread::yield();
      engine::Work never;
      const Status first = self.comm->barrier({}, nullptr);
      return first;
    }
    engine::Work work;
    NEZHA_RETURN_IF_ERROR(reduce(*self.comm, 100, 0, &work));
    std::thread other([&] {
      self.comm->wait(work, system_clock().now() + 10 * kMillisecond);
      self.comm->abort();
      waiting.store(true);
    });
    self.comm->wait(work, kNever);
    other.join();
    return work.status();
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::aborted) << outcome.to_string();
  }
}

// What is in flight when a communicator ends completes with `aborted` and leaves the buffers alone.
TEST(Leaving, EndsOnesOwnOperations) {
  World world({.ranks = 2});
  const auto outcomes = world.run([&](Member& self) {
    auto part = self.comm->split(0, 0);
    if (!part) return part.status();
    engine::Work work;
    if (self.rank == 0) {
      NEZHA_RETURN_IF_ERROR(reduce(**part, 50'000, 0, &work));
      part->reset();
      EXPECT_TRUE(work.is_done());
      EXPECT_EQ(work.status().code(), Code::aborted) << work.status().to_string();
    }
    return self.comm->barrier({}, nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Leaving, TooEarlyIsNamed) {
  for (const int leaver : {0, 2}) {
    for (const uint64_t count : {1, 300'000}) {
      World world({.ranks = 3, .rails = 2});
      const auto outcomes = world.run([&](Member& self) {
        if (self.rank == leaver) {
          self.doing("leave");
          world.leave(self.rank);
          return Status::ok();
        }
        return reduce(*self.comm, count);
      });
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == leaver) continue;
        const Status& outcome = outcomes[static_cast<size_t>(rank)];
        EXPECT_EQ(outcome.code(), Code::peer_lost) << outcome.to_string();
        EXPECT_TRUE(contains(outcome, "rank " + std::to_string(leaver) + " left"))
            << outcome.to_string();
      }
    }
  }
}

// The root of a broadcast needs nothing from the leaf that left, and still must not wait for it.
TEST(Leaving, TheRootOfABroadcastLearnsIt) {
  for (const uint64_t count : {1, 20'000, 8'000'000}) {
    World world({.ranks = 2, .timeout_s = kPatience_s / 3});
    const auto outcomes = world.run([&](Member& self) {
      if (self.rank == 1) {
        world.leave(1);
        return Status::ok();
      }
      std::vector<float> data(count);
      return self.comm->broadcast(data.data(), count, Dtype::float32, 0, {}, nullptr);
    });
    EXPECT_EQ(outcomes[0].code(), Code::peer_lost) << count << ": " << outcomes[0].to_string();
    EXPECT_TRUE(contains(outcomes[0], "rank 1 left")) << outcomes[0].to_string();
  }
}

// Nothing was under way when the rank left, and no event will come any more.
TEST(Leaving, BeforeTheCallIsNamedAtOnce) {
  World world({.ranks = 3, .timeout_s = 10 * kPatience_s});
  const auto outcomes = world.run([&](Member& self) {
    if (self.rank == 1) {
      world.leave(1);
      return Status::ok();
    }
    context::Context& context = self.comm->context();
    while (context.stats_json().find("\"endpoints_lost\":1") == std::string::npos) {
      progress::Loop::Lock lock(context.loop());
      lock.drive_once();
    }
    const Status first = reduce(*self.comm, 1);
    EXPECT_EQ(self.comm->barrier({}, nullptr).message(), first.message());
    return first;
  });
  for (const int rank : {0, 2}) {
    const Status& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_EQ(outcome.code(), Code::peer_lost) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "rank 1 left")) << outcome.to_string();
  }
}

// A look for a message is no operation: its error is for the one who looked, and the others go on.
TEST(Leaving, IsToldToAProbeWhichEndsNothing) {
  World world({.ranks = 3});
  const auto outcomes = world.run([&](Member& self) {
    if (self.rank == 1) {
      world.leave(1);
      return Status::ok();
    }
    auto seen = self.comm->probe(1, 5);
    while (seen) seen = self.comm->probe(1, 5);
    EXPECT_EQ(seen.status().code(), Code::peer_lost) << seen.status().to_string();
    EXPECT_TRUE(contains(seen.status(), "rank 1 left")) << seen.status().to_string();
    float value = 7.0F;
    if (self.rank == 0) return self.comm->send(&value, 1, Dtype::float32, 2, 5, {}, nullptr);
    return self.comm->receive(&value, 1, Dtype::float32, 0, 5, {}, nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// Whoever is done may go at once: the others still get everything.
TEST(Leaving, RightAfterTheLastOperation) {
  for (int repeat = 0; repeat < 6; ++repeat) {
    World world({.ranks = 4, .rails = 2});
    const auto outcomes = world.run([&](Member& self) {
      const uint64_t count = repeat % 2 == 0 ? 3 : 200'000;
      Status outcome = reduce(*self.comm, count);
      std::vector<float> data(count);
      if (outcome.is_ok()) {
        outcome = self.comm->broadcast(data.data(), count, Dtype::float32, repeat % 4, {}, nullptr);
      }
      self.doing("leave");
      world.leave(self.rank);
      return outcome;
    });
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

}  // namespace
}  // namespace nezha::testing
