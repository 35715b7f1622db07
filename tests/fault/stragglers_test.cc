// Who is absent: known while the others wait, and said when their patience ends.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/json.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

bool contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

Status reduce(context::Communicator& comm, uint64_t count, double timeout_s,
              engine::Work* work = nullptr) {
  static thread_local std::vector<float> data;
  data.assign(count, 1.0F);
  context::CallOptions options;
  options.timeout_s = timeout_s;
  return comm.all_reduce(data.data(), data.data(), count, Dtype::float32, ReduceOp::sum, options, work);
}

JsonValue report_of(context::Communicator& comm) {
  auto parsed = parse_json(comm.stragglers_json());
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().to_string();
  return parsed ? *parsed : JsonValue();
}

// Reads reports until `good(report)` holds; the watchdog ends a wait that is in vain.
template <class Good>
JsonValue await_report(context::Communicator& comm, Good good) {
  JsonValue report = report_of(comm);
  while (!good(report)) {
    std::this_thread::yield();
    report = report_of(comm);
  }
  return report;
}

// By rank of the communicator; the own one is left out of the report.
const JsonValue& entry_of(const JsonValue& report, int rank) {
  static const JsonValue none;
  for (const JsonValue& entry : report.at("ranks").items()) {
    if (entry.at("rank").integer_or(-1) == rank) return entry;
  }
  return none;
}

// What a rank said while it was still in the barrier may be all that is known of it for half a second.
bool is_through_barrier(const JsonValue& entry) {
  return entry.at("last").at("collective").string_or("") == "barrier" && !entry.at("open").bool_or(true);
}

TEST(Stragglers, TheAbsentOneIsKnownWhileTheOthersWait) {
  World world({.ranks = 3});
  std::atomic<int> seen{0};
  const auto outcomes = world.run([&](Member& self) {
    NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    if (self.rank == 2) {
      while (seen.load() < 2) std::this_thread::yield();
      return reduce(*self.comm, 100, 0);
    }
    engine::Work work;
    NEZHA_RETURN_IF_ERROR(reduce(*self.comm, 100, 0, &work));
    const int other = 1 - self.rank;
    const JsonValue report = await_report(*self.comm, [&](const JsonValue& at) {
      return entry_of(at, other).at("called").bool_or(false) && is_through_barrier(entry_of(at, 2));
    });
    seen.fetch_add(1);
    EXPECT_EQ(report.at("operation").at("collective").string_or(""), "all_reduce");
    EXPECT_EQ(report.at("operation").at("op_seq").integer_or(-1), 1);
    EXPECT_EQ(report.at("absent").items().size(), 1U);
    EXPECT_EQ(report.at("absent").items()[0].integer_or(-1), 2);
    EXPECT_FALSE(entry_of(report, 2).at("called").bool_or(true));
    EXPECT_FALSE(entry_of(report, 2).at("open").bool_or(true));
    EXPECT_TRUE(entry_of(report, other).at("open").bool_or(false));
    self.comm->wait(work, kNever);
    EXPECT_TRUE(report_of(*self.comm).at("operation").is_null());
    return work.status();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Stragglers, TheDeadlinesErrorSaysWhoIsAbsentAndWhatEverybodyDidLast) {
  World world({.ranks = 4});
  std::atomic<int> called{0};
  std::atomic<int> waiting{0};
  std::atomic<bool> failed{false};
  const auto outcomes = world.run([&](Member& self) {
    NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    if (self.rank == 3) {
      // A call now could meet the others' operation before word of its end.
      while (!failed.load()) std::this_thread::yield();
      return Status::ok();
    }
    engine::Work work;
    // Rank 0 alone has a deadline that matters: its view is the one that everybody is told. That begins
    // when the others have called it.
    while (self.rank == 0 && called.load() < 2) std::this_thread::yield();
    NEZHA_RETURN_IF_ERROR(reduce(*self.comm, 200, self.rank == 0 ? 3 : 0, &work));
    called.fetch_add(1);
    await_report(*self.comm, [&](const JsonValue& at) {
      bool all = is_through_barrier(entry_of(at, 3));
      for (int rank = 0; rank < 3; ++rank) {
        all &= rank == self.rank || entry_of(at, rank).at("called").bool_or(false);
      }
      return all;
    });
    waiting.fetch_add(1);
    self.comm->wait(work, kNever);
    failed.store(true);
    return work.status();
  });
  EXPECT_EQ(waiting.load(), 3);
  for (size_t rank = 0; rank < 3; ++rank) {
    const Status& outcome = outcomes[rank];
    EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "; rank 3 has not called it: its last was barrier #0;"))
        << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "; rank 1 is in it")) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "; rank 2 is in it")) << outcome.to_string();
  }
}

// No data flows: each waits for the other's.
TEST(Stragglers, ADisagreementIsFoundWithoutData) {
  World world({.ranks = 2});
  const auto outcomes = world.run([](Member& self) {
    std::vector<float> data(10);
    return self.comm->broadcast(data.data(), 10, Dtype::float32, 1 - self.rank, {}, nullptr);
  });
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    EXPECT_TRUE(contains(outcome, "root is ")) << outcome.to_string();
  }
}

// Each waits in another communicator: no operation has two descriptions, so it is the deadline's to say.
TEST(Stragglers, CommunicatorsInOppositeOrdersAreNamed) {
  World world({.ranks = 2});
  std::atomic<int> failed{0};
  const auto outcomes = world.run([&](Member& self) {
    const int everybody[] = {0, 1};
    auto first = self.comm->create(everybody, "first");
    auto second = self.comm->create(everybody, "second");
    if (!first || !second) return error(Code::internal, "no communicators");
    engine::Work work;
    context::Communicator& mine = self.rank == 0 ? **first : **second;
    NEZHA_RETURN_IF_ERROR(reduce(mine, 10, 0, &work));
    await_report(mine, [&](const JsonValue& at) {
      return entry_of(at, 1 - self.rank).at("open").bool_or(false);
    });
    // The deadline begins when both know of each other, however long that took.
    context::CallOptions options;
    options.timeout_s = 1;
    const Status outcome = mine.barrier(options, nullptr);
    failed.fetch_add(1);
    while (failed.load() < 2) std::this_thread::yield();
    return outcome;
  });
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].code(), Code::timed_out) << outcomes[rank].to_string();
    // The rank whose deadline passes first may say already that its operation is over.
    const bool is_in = contains(outcomes[rank], "called it: it is in all_reduce #0 of communicator ");
    const bool was_in = contains(outcomes[rank], "its last was all_reduce #0 of communicator ");
    EXPECT_TRUE(is_in || was_in) << outcomes[rank].to_string();
  }
}

}  // namespace
}  // namespace nezha::testing
