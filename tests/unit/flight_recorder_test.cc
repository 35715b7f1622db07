// The flight recorder: what it keeps, what it forgets, and that nothing it is told can make it grow.
#include "engine/common/flight_recorder.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/json.h"

namespace nezha::engine {
namespace {

FlightOperation reduction(uint64_t comm, uint64_t op_seq) {
  FlightOperation operation;
  operation.comm = comm;
  operation.op_seq = op_seq;
  operation.op.count = 100 + op_seq;
  return operation;
}

template <class Write>
JsonValue written(Write write) {
  JsonWriter json;
  write(json);
  auto parsed = parse_json(json.text());
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().to_string();
  return parsed ? *parsed : JsonValue();
}

JsonValue operations_of(const FlightRecorder& recorder, int64_t offset_us = 0) {
  return written([&](JsonWriter& json) { recorder.write_operations(json, offset_us); });
}

TEST(FlightRecorder, CountsWhatEndedWellByKindAndSize) {
  FlightRecorder recorder;
  FlightOperation operation = reduction(7, 0);
  const auto run = [&](uint64_t count, Code code) {
    operation.op.count = count;
    recorder.finished(recorder.submitted(operation, kSecond), 3 * kSecond, code);
  };
  run(1024, Code::ok);
  run(1025, Code::ok);
  run(2048, Code::ok);
  run(2048, Code::timed_out);
  operation.op.collective = Collective::barrier;
  run(0, Code::ok);
  using Row = std::tuple<Collective, uint64_t, uint64_t, uint64_t, Nanoseconds>;
  std::vector<Row> rows;
  recorder.profile().each([&](Collective kind, uint64_t bytes_max, const OperationProfile::Row& row) {
    rows.emplace_back(kind, bytes_max, row.count, row.bytes, row.time);
  });
  EXPECT_EQ(rows, (std::vector<Row>{
                      {Collective::all_reduce, 4096, 1, 4096, 2 * kSecond},
                      {Collective::all_reduce, 8192, 2, 4100 + 8192, 4 * kSecond},
                      {Collective::barrier, 0, 1, 0, 2 * kSecond}}));
}

TEST(FlightRecorder, TellsTheLifeOfAnOperation) {
  FlightRecorder recorder;
  const uint64_t id = recorder.submitted(reduction(7, 3), 1000 * kMicrosecond);
  EXPECT_EQ(operations_of(recorder).items()[0].at("state").string_or(""), "queued");
  EXPECT_TRUE(operations_of(recorder).items()[0].at("started_us").is_null());
  recorder.started(id, 1005 * kMicrosecond);
  const int awaited[] = {2, 5};
  recorder.awaits(id, awaited);
  const JsonValue running = operations_of(recorder);
  EXPECT_EQ(running.items()[0].at("state").string_or(""), "running");
  ASSERT_EQ(running.items()[0].at("waits_for").items().size(), 2U);
  EXPECT_EQ(running.items()[0].at("waits_for").items()[1].integer_or(-1), 5);
  recorder.finished(id, 1040 * kMicrosecond, Code::ok);
  const JsonValue over = operations_of(recorder, 5'000'000);
  const JsonValue& entry = over.items()[0];
  EXPECT_EQ(entry.at("comm").integer_or(-1), 7);
  EXPECT_EQ(entry.at("op_seq").integer_or(-1), 3);
  EXPECT_EQ(entry.at("collective").string_or(""), "all_reduce");
  EXPECT_EQ(entry.at("op").string_or(""), "sum");
  EXPECT_TRUE(entry.at("root").is_null());
  EXPECT_EQ(entry.at("count").integer_or(-1), 103);
  EXPECT_EQ(entry.at("submitted_us").integer_or(-1), 5'001'000);
  EXPECT_EQ(entry.at("started_us").integer_or(-1), 5'001'005);
  EXPECT_EQ(entry.at("finished_us").integer_or(-1), 5'001'040);
  EXPECT_EQ(entry.at("state").string_or(""), "done");
  EXPECT_TRUE(entry.at("waits_for").items().empty());
  EXPECT_TRUE(entry.at("error").is_null());
}

TEST(FlightRecorder, AFailureEndsWhatIsNotOverAndNothingElse) {
  FlightRecorder recorder;
  const uint64_t before = recorder.submitted(reduction(1, 0), 10);
  const uint64_t other = recorder.submitted(reduction(2, 0), 20);
  const uint64_t hit = recorder.submitted(reduction(1, 1), 30);
  const int absent[] = {3};
  recorder.awaits(hit, absent);
  recorder.finished(before, 40, Code::ok);
  recorder.failed(1, 50, error(Code::timed_out, "rank 0: waiting for rank 3").with_peer(3));
  EXPECT_EQ(recorder.find(before)->state, FlightState::done);
  EXPECT_EQ(recorder.find(other)->state, FlightState::queued);
  EXPECT_EQ(recorder.find(hit)->state, FlightState::failed);
  EXPECT_EQ(recorder.find(hit)->code, Code::timed_out);
  recorder.finished(hit, 60, Code::ok);  // it was told before
  EXPECT_EQ(recorder.find(hit)->finished_at, 50);
  const JsonValue operations = operations_of(recorder);
  const JsonValue& entry = operations.items()[2];
  EXPECT_EQ(entry.at("error").string_or(""), "rank 0: waiting for rank 3");
  EXPECT_EQ(entry.at("code").string_or(""), "timed_out");
  ASSERT_EQ(entry.at("waits_for").items().size(), 1U);  // whom it waited for at the end
  const JsonValue failures =
      written([&](JsonWriter& json) { recorder.write_failures(json, 0); });
  ASSERT_EQ(failures.items().size(), 1U);
  EXPECT_EQ(failures.items()[0].at("peer").integer_or(-1), 3);
  EXPECT_EQ(failures.items()[0].at("comm").integer_or(-1), 1);
}

TEST(FlightRecorder, KeepsTheNewestInOrder) {
  FlightRecorder recorder;
  const uint64_t total = kFlightOperations + 7;
  uint64_t first = 0;
  for (uint64_t i = 0; i < total; ++i) {
    const uint64_t id = recorder.submitted(reduction(1, i), static_cast<Nanoseconds>(i + 1));
    if (i == 0) first = id;
  }
  EXPECT_EQ(recorder.find(first), nullptr);
  recorder.finished(first, 5, Code::ok);  // its place belongs to another now
  const JsonValue operations = operations_of(recorder);
  ASSERT_EQ(operations.items().size(), kFlightOperations);
  for (size_t i = 0; i < operations.items().size(); ++i) {
    EXPECT_EQ(operations.items()[i].at("op_seq").integer_or(-1), static_cast<int64_t>(i + 7));
    EXPECT_EQ(operations.items()[i].at("state").string_or(""), "queued");
  }
  EXPECT_EQ(recorder.operation_count(), total);
  for (int i = 0; i < 1000; ++i) {
    recorder.rail(RailEventKind::lost, i + 1, i, 0, 0, "reset");
    recorder.failed(9, i + 1, error(Code::aborted, "number %d", i));
  }
  const JsonValue rails = written([&](JsonWriter& json) { recorder.write_rail_events(json, 0); });
  ASSERT_EQ(rails.items().size(), kFlightRailEvents);
  EXPECT_EQ(rails.items().back().at("peer").integer_or(-1), 999);
  const JsonValue failures = written([&](JsonWriter& json) { recorder.write_failures(json, 0); });
  ASSERT_EQ(failures.items().size(), kFlightFailures);
  EXPECT_EQ(failures.items().back().at("text").string_or(""), "number 999");
}

TEST(FlightRecorder, CutsLongTextsAndLongLists) {
  FlightRecorder recorder;
  const uint64_t id = recorder.submitted(reduction(1, 0), 1);
  std::vector<int> everybody(5000);
  for (size_t i = 0; i < everybody.size(); ++i) everybody[i] = static_cast<int>(i);
  recorder.awaits(id, everybody);
  recorder.rail(RailEventKind::suspect, 1, 1, 2, 3, std::string(4000, 'x'));
  recorder.failed(1, 2, Status(Code::internal, std::string(100'000, 'y')));
  const JsonValue entry = operations_of(recorder).items()[0];
  EXPECT_EQ(entry.at("awaited").integer_or(-1), 5000);
  EXPECT_EQ(entry.at("waits_for").items().size(), kFlightAwaitedMax);
  EXPECT_LE(entry.at("error").string_or("").size(), 1023U);
  const JsonValue rails = written([&](JsonWriter& json) { recorder.write_rail_events(json, 0); });
  EXPECT_LE(rails.items()[0].at("reason").string_or("").size(), 159U);
  EXPECT_EQ(rails.items()[0].at("event").string_or(""), "suspect");
  EXPECT_EQ(rails.items()[0].at("lane").integer_or(-1), 3);
}

TEST(FlightRecorder, AMessageSaysWhomItIsWith) {
  FlightRecorder recorder;
  FlightOperation send;
  send.op.collective = Collective::send_recv;
  send.op.plan = 42;
  send.is_send = true;
  send.peer = 3;
  recorder.submitted(send, 1);
  send.is_send = false;
  send.peer = -1;
  recorder.submitted(send, 2);
  const JsonValue operations = operations_of(recorder);
  EXPECT_EQ(operations.items()[0].at("direction").string_or(""), "send");
  EXPECT_EQ(operations.items()[0].at("tag").integer_or(-1), 42);
  EXPECT_EQ(operations.items()[0].at("peer").integer_or(-1), 3);
  EXPECT_TRUE(operations.items()[0].at("op_seq").is_null());
  EXPECT_EQ(operations.items()[1].at("direction").string_or(""), "receive");
  EXPECT_TRUE(operations.items()[1].at("peer").is_null());
}

TEST(FlightRecorder, UnknownIdsAreIgnored) {
  FlightRecorder recorder;
  recorder.started(0, 1);
  recorder.finished(77, 1, Code::ok);
  recorder.awaits(77, {});
  EXPECT_TRUE(operations_of(recorder).items().empty());
}

}  // namespace
}  // namespace nezha::engine
