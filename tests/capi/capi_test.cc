// The C API: what a caller may get wrong, structs from older callers, texts, and a real world of ranks.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "capi/nezha_c.h"
#include "nezha/interrupt.h"
#include "nezha/nezha.h"
#include "support/temp_directory.h"
#include "support/watchdog.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

// The texts are borrowed, so they are C strings here too.
nezha_init_options options_of(int rank, int ranks, const char* store, const char* config) {
  nezha_init_options options{};
  options.struct_size = sizeof(options);
  options.rank = rank;
  options.world_size = ranks;
  options.store = store;
  options.timeout_s = kPatience_s / 2;
  options.config = config;
  return options;
}

// One rank's body per thread; every communicator is destroyed afterwards.
template <class Body>
void with_world(int ranks, Body body) {
  Watchdog watchdog("C API", ranks);
  const std::string store = fresh_store();
  const std::string config = loopback_config(1) + "policy=table\n";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      nezha_comm_t comm = nullptr;
      const nezha_init_options options = options_of(rank, ranks, store.c_str(), config.c_str());
      ASSERT_EQ(nezha_init(&options, &comm), NEZHA_OK) << nezha_last_error();
      body(rank, comm);
      nezha_destroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Ranks that are threads, and what they exchange.
struct ThreadRanks {
  explicit ThreadRanks(int ranks) : slots(static_cast<size_t>(ranks)), everybody(ranks) {}
  std::vector<std::string> slots;
  std::barrier<> everybody;
};
struct ThreadRank {
  ThreadRanks& all;
  size_t rank;

  static int broadcast(void* user, void* data, size_t size) {
    auto& self = *static_cast<ThreadRank*>(user);
    if (self.rank == 0) self.all.slots[0].assign(static_cast<const char*>(data), size);
    self.all.everybody.arrive_and_wait();
    std::memcpy(data, self.all.slots[0].data(), size);
    self.all.everybody.arrive_and_wait();
    return 0;
  }
  static int all_gather(void* user, const void* mine, void* everything, size_t size) {
    auto& self = *static_cast<ThreadRank*>(user);
    self.all.slots[self.rank].assign(static_cast<const char*>(mine), size);
    self.all.everybody.arrive_and_wait();
    for (const std::string& slot : self.all.slots) {
      std::memcpy(everything, slot.data(), size);
      everything = static_cast<char*>(everything) + size;
    }
    self.all.everybody.arrive_and_wait();
    return 0;
  }
  static int broken(void*, void*, size_t) { return NEZHA_PEER_LOST; }
};

TEST(CApi, MeetsThroughTheProgramsOwnExchange) {
  constexpr int kRanks = 3;
  Watchdog watchdog("exchange", kRanks);
  const std::string config = loopback_config(1);
  ThreadRanks table(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRank self{table, static_cast<size_t>(rank)};
      const nezha_exchange exchange{sizeof(exchange), &self, ThreadRank::broadcast,
                                    ThreadRank::all_gather};
      nezha_init_options options = options_of(rank, kRanks, nullptr, config.c_str());
      options.exchange = &exchange;
      nezha_comm_t comm = nullptr;
      ASSERT_EQ(nezha_init(&options, &comm), NEZHA_OK) << nezha_last_error();
      int64_t x = rank;
      EXPECT_EQ(nezha_all_reduce(comm, &x, &x, 1, NEZHA_INT64, NEZHA_SUM, nullptr, nullptr), NEZHA_OK);
      EXPECT_EQ(x, 3);
      nezha_destroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The other rank is in the same calls, which have no deadline.
TEST(CApi, ARankWithWrongOptionsTakesPartInTheExchange) {
  Watchdog watchdog("exchange with wrong options", 2);
  ThreadRanks table(2);
  const std::array<std::string, 2> config = {loopback_config(1), "chunk_bytes=nonsense\n"};
  std::array<nezha_code, 2> codes{};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRank self{table, rank};
      const nezha_exchange exchange{sizeof(exchange), &self, ThreadRank::broadcast,
                                    ThreadRank::all_gather};
      nezha_init_options options = options_of(static_cast<int>(rank), 2, nullptr, config[rank].c_str());
      options.timeout_s = 1;
      options.exchange = &exchange;
      nezha_comm_t comm = nullptr;
      codes[rank] = nezha_init(&options, &comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(codes[0], NEZHA_TIMED_OUT);
  EXPECT_EQ(codes[1], NEZHA_INVALID_ARGUMENT);
}

TEST(CApi, AnExchangeThatFailsIsTold) {
  const std::string config = loopback_config(1);
  nezha_exchange exchange{sizeof(exchange), nullptr, ThreadRank::broken, nullptr};
  nezha_init_options options = options_of(0, 2, nullptr, config.c_str());
  options.exchange = &exchange;
  nezha_comm_t comm = nullptr;
  EXPECT_EQ(nezha_init(&options, &comm), NEZHA_INVALID_ARGUMENT);
  exchange.all_gather = ThreadRank::all_gather;
  EXPECT_EQ(nezha_init(&options, &comm), NEZHA_PEER_LOST);
  EXPECT_NE(std::string(nezha_last_error()).find("broadcast of the program's own exchange"),
            std::string::npos);
}

TEST(CApi, WorksFromC) {
  const TempDirectory directory;
  const std::string key = directory.path() + "/key";
  std::ofstream(key) << "0123456789abcdef0123456789abcdef";
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  const char* wrong = run_c_program(key.c_str());
  EXPECT_EQ(wrong, nullptr) << wrong;
}

TEST(CApi, NullIsRefusedNotFollowed) {
  nezha_comm_t comm = nullptr;
  nezha_work_t work = nullptr;
  int number = 0;
  size_t needed = 0;
  const nezha_init_options options = options_of(0, 1, "hash://null", "");
  const nezha_code codes[] = {
      nezha_init(nullptr, &comm),
      nezha_init(&options, nullptr),
      nezha_rank(nullptr, &number),
      nezha_world_size(nullptr, &number),
      nezha_split(nullptr, 0, 0, &comm),
      nezha_all_reduce(nullptr, &number, &number, 1, NEZHA_INT32, NEZHA_SUM, nullptr, nullptr),
      nezha_broadcast(nullptr, &number, 1, NEZHA_INT32, 0, nullptr, &work),
      nezha_barrier(nullptr, nullptr, nullptr),
      nezha_test(nullptr, &number),
      nezha_wait(nullptr, 1),
      nezha_abort(nullptr),
      nezha_comm_abort(nullptr),
      nezha_describe(nullptr, "stats", nullptr, 0, &needed),
      nezha_load_table(nullptr, "{}"),
      nezha_dump_flight(nullptr, nullptr, nullptr, 0, nullptr),
  };
  for (size_t i = 0; i < std::size(codes); ++i) {
    EXPECT_EQ(codes[i], NEZHA_INVALID_ARGUMENT) << "call " << i;
  }
  EXPECT_EQ(work, nullptr);
  EXPECT_STRNE(nezha_last_error(), "");
  nezha_destroy(nullptr);
  nezha_work_free(nullptr);
}

TEST(CApi, StructSizes) {
  nezha_comm_t comm = nullptr;
  const std::string config = loopback_config(1);
  nezha_init_options options = options_of(0, 1, "hash://sizes", config.c_str());
  for (const size_t size : {size_t{0}, size_t{4}, size_t{1} << 20}) {
    options.struct_size = size;
    EXPECT_EQ(nezha_init(&options, &comm), NEZHA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(nezha_last_error()).find("struct_size"), std::string::npos);
  }
  // An older caller's struct ends before `config`; what lies behind it is not read.
  options.struct_size = offsetof(nezha_init_options, config);
  options.config = reinterpret_cast<const char*>(1);
  ASSERT_EQ(nezha_init(&options, &comm), NEZHA_OK) << nezha_last_error();
  // An older caller's options end behind `factor`.
  nezha_op_options call{};
  call.struct_size = offsetof(nezha_op_options, timeout_s);
  call.factor = 3.0;
  call.timeout_s = 1e-9;
  call.algorithm = reinterpret_cast<const char*>(1);
  int32_t value = 5;
  ASSERT_EQ(nezha_all_reduce(comm, &value, &value, 1, NEZHA_INT32, NEZHA_PREMUL_SUM, &call, nullptr),
            NEZHA_OK) << nezha_last_error();
  EXPECT_EQ(value, 15);
  call.struct_size = 2;
  EXPECT_EQ(nezha_barrier(comm, &call, nullptr), NEZHA_INVALID_ARGUMENT);
  call.struct_size = sizeof(call);
  call.algorithm = "no_such_algorithm";
  EXPECT_EQ(nezha_barrier(comm, &call, nullptr), NEZHA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(nezha_last_error()).find("no_such_algorithm"), std::string::npos);
  nezha_destroy(comm);
}

TEST(CApi, ACallerWhoWouldWaitGetsAHandleOfWhatIsNotOverOnly) {
  nezha_op_options call{};
  call.struct_size = sizeof(call);
  call.factor = 1.0;
  call.will_wait = 1;
  std::atomic<bool> has_handle{false};
  with_world(2, [&](int rank, nezha_comm_t comm) {
    nezha_work_t work = nullptr;
    int32_t value = 7;
    if (rank == 1) {
      while (!has_handle.load()) std::this_thread::yield();
      ASSERT_EQ(nezha_send(comm, &value, 1, NEZHA_INT32, 0, 0, nullptr, nullptr), NEZHA_OK);
      return;
    }
    ASSERT_EQ(nezha_recv(comm, &value, 1, NEZHA_INT32, 1, 0, &call, &work), NEZHA_OK)
        << nezha_last_error();
    EXPECT_NE(work, nullptr);  // nobody has sent it
    value = 0;
    has_handle.store(true);
    EXPECT_EQ(nezha_wait(work, 0), NEZHA_OK) << nezha_last_error();
    EXPECT_EQ(value, 7);
    nezha_work_free(work);
  });
  nezha_comm_t alone = nullptr;
  const nezha_init_options options = options_of(0, 1, "hash://alone", "");
  ASSERT_EQ(nezha_init(&options, &alone), NEZHA_OK) << nezha_last_error();
  int32_t value = 3;
  nezha_work_t work = reinterpret_cast<nezha_work_t>(&value);  // to be overwritten
  ASSERT_EQ(nezha_all_reduce(alone, &value, &value, 1, NEZHA_INT32, NEZHA_SUM, &call, &work), NEZHA_OK);
  EXPECT_EQ(work, nullptr);
  EXPECT_EQ(value, 3);
  ASSERT_EQ(nezha_group_begin(alone), NEZHA_OK);
  ASSERT_EQ(nezha_all_reduce(alone, &value, &value, 1, NEZHA_INT32, NEZHA_SUM, &call, nullptr), NEZHA_OK);
  work = reinterpret_cast<nezha_work_t>(&value);
  EXPECT_EQ(nezha_group_end(alone, &call, &work), NEZHA_OK) << nezha_last_error();
  EXPECT_EQ(work, nullptr);
  nezha_destroy(alone);
}

TEST(CApi, TextsFitOrSayWhatTheyNeed) {
  with_world(2, [](int, nezha_comm_t comm) {
    for (const char* what : {"rails", "stats", "config", "table", "flight", "stragglers"}) {
      size_t needed = 0;
      EXPECT_EQ(nezha_describe(comm, what, nullptr, 0, &needed), NEZHA_EXHAUSTED) << what;
      ASSERT_GT(needed, 1U);
      // Texts with counters may grow between two calls.
      std::vector<char> text(needed + 1000, 'x');
      size_t again = 0;
      ASSERT_EQ(nezha_describe(comm, what, text.data(), text.size(), &again), NEZHA_OK) << what;
      EXPECT_EQ(std::strlen(text.data()) + 1, again);
      EXPECT_EQ(text[again], 'x');
      EXPECT_TRUE(parse_json(text.data()).is_ok()) << text.data();
      EXPECT_EQ(nezha_describe(comm, what, text.data(), text.size(), nullptr), NEZHA_OK);
    }
    EXPECT_EQ(nezha_describe(comm, "nonsense", nullptr, 0, nullptr), NEZHA_INVALID_ARGUMENT);
    EXPECT_EQ(nezha_describe(comm, nullptr, nullptr, 0, nullptr), NEZHA_INVALID_ARGUMENT);
    EXPECT_EQ(nezha_load_table(comm, "{"), NEZHA_INVALID_ARGUMENT);
  });
}

TEST(CApi, FlightDumpsGoWhereOneSays) {
  with_world(2, [](int rank, nezha_comm_t comm) {
    EXPECT_EQ(nezha_barrier(comm, nullptr, nullptr), NEZHA_OK);
    const std::string path = ::testing::TempDir() + "nezha-capi-flight-" + std::to_string(rank);
    EXPECT_EQ(nezha_dump_flight(comm, path.c_str(), nullptr, 0, nullptr), NEZHA_OK);
    std::array<char, 512> name{};
    EXPECT_EQ(nezha_dump_flight(comm, path.c_str(), name.data(), 2, nullptr), NEZHA_EXHAUSTED);
    EXPECT_EQ(nezha_dump_flight(comm, path.c_str(), name.data(), name.size(), nullptr), NEZHA_OK);
    EXPECT_EQ(path, name.data());
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    auto dump = parse_json(text);
    EXPECT_TRUE(dump.is_ok()) << dump.status().to_string();
    if (dump) {
      EXPECT_EQ(dump->at("rank").integer_or(-1), rank);
      EXPECT_EQ(dump->at("operations").items().size(), 1U);
    }
    std::remove(path.c_str());
    EXPECT_EQ(nezha_dump_flight(comm, "/nowhere/at/all", nullptr, 0, nullptr), NEZHA_INVALID_ARGUMENT);
  });
}

TEST(CApi, QueriesNeedNoCommunicator) {
  for (const char* what : {"devices", "explain", "aggregator", "config", "build"}) {
    size_t needed = 0;
    ASSERT_EQ(nezha_query(what, nullptr, nullptr, 0, &needed), NEZHA_EXHAUSTED) << what;
    std::vector<char> exact(needed);
    EXPECT_EQ(nezha_query(what, "{}", exact.data(), needed - 1, nullptr), NEZHA_EXHAUSTED);
    ASSERT_EQ(nezha_query(what, "", exact.data(), exact.size(), nullptr), NEZHA_OK) << what;
    EXPECT_TRUE(parse_json(exact.data()).is_ok()) << exact.data();
  }
  std::array<char, 16> text;
  EXPECT_EQ(nezha_query("nonsense", "{}", text.data(), text.size(), nullptr),
            NEZHA_INVALID_ARGUMENT);
  EXPECT_EQ(nezha_query(nullptr, "{}", text.data(), text.size(), nullptr), NEZHA_INVALID_ARGUMENT);
  EXPECT_EQ(nezha_query("explain", "{", text.data(), text.size(), nullptr), NEZHA_INVALID_ARGUMENT);
  for (const char* request :
       {"{\"world_size\": 0}", "{\"dtype\": \"float7\"}", "{\"collective\": \"gossip\"}",
        "{\"algorithm\": \"magic\"}", "{\"bytes\": -1}", "{\"rails\": -1}",
        "{\"rate_gbps\": 0}"}) {
    EXPECT_EQ(nezha_query("explain", request, text.data(), text.size(), nullptr),
              NEZHA_INVALID_ARGUMENT) << request;
  }
  for (const char* request :
       {"{}", "{\"rails\": []}", "{\"rails\": [{\"rate_gbps\": 0, \"latency_us\": 1}]}",
        "{\"rails\": [{\"rate_gbps\": 1}]}",
        "{\"bytes\": -1, \"rails\": [{\"rate_gbps\": 1, \"latency_us\": 1}]}",
        "{\"rails\": [{\"rate_gbps\": 1, \"latency_us\": 1}], \"split_cost_us\": -1}",
        "{\"rails\": [{\"rate_gbps\": 1, \"latency_us\": 1}], \"rate_lost\": [[0.5]]}"}) {
    EXPECT_EQ(nezha_query("divide", request, text.data(), text.size(), nullptr),
              NEZHA_INVALID_ARGUMENT) << request;
  }
}

TEST(CApi, SmallThings) {
  EXPECT_STREQ(nezha_code_name(NEZHA_PEER_LOST), "peer_lost");
  EXPECT_STREQ(nezha_code_name(NEZHA_OK), "ok");
  EXPECT_NE(nezha_code_name(static_cast<nezha_code>(99)), nullptr);
  EXPECT_EQ(nezha_dtype_size(NEZHA_BFLOAT16), 2U);
  EXPECT_EQ(nezha_dtype_size(NEZHA_INT64), 8U);
  EXPECT_EQ(nezha_dtype_size(static_cast<nezha_dtype>(99)), 0U);
  std::string version = std::to_string(NEZHA_VERSION_MAJOR);
  for (const int part : {NEZHA_VERSION_MINOR, NEZHA_VERSION_PATCH}) version += "." + std::to_string(part);
  EXPECT_EQ(nezha_version(), version);
}

TEST(CApi, ErrorsBelongToTheirThread) {
  ASSERT_EQ(nezha_barrier(nullptr, nullptr, nullptr), NEZHA_INVALID_ARGUMENT);
  const std::string mine = nezha_last_error();
  std::thread([] {
    EXPECT_STREQ(nezha_last_error(), "");
    EXPECT_EQ(nezha_wait(nullptr, 0), NEZHA_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(mine, nezha_last_error());
}

JsonValue last_details() {
  auto details = parse_json(nezha_last_error_details());
  EXPECT_TRUE(details.is_ok()) << nezha_last_error_details();
  return details.is_ok() ? std::move(*details) : JsonValue();
}

TEST(CApi, ErrorsSayToProgramsWhatTheyAreAbout) {
  ASSERT_EQ(nezha_barrier(nullptr, nullptr, nullptr), NEZHA_INVALID_ARGUMENT);
  const JsonValue plain = last_details();
  EXPECT_EQ(plain.at("version").integer_or(0), 1);
  EXPECT_EQ(plain.at("code").string_or(""), "invalid_argument");
  EXPECT_TRUE(plain.at("ranks").items().empty());
  EXPECT_TRUE(plain.at("operation").is_null());
  EXPECT_FALSE(plain.at("goes_on").bool_or(true));
  with_world(2, [](int rank, nezha_comm_t comm) {
    int32_t value = 1;
    nezha_work_t work = nullptr;
    if (rank == 0) {
      ASSERT_EQ(nezha_all_reduce(comm, &value, &value, 1, NEZHA_INT32, NEZHA_SUM, nullptr, &work),
                NEZHA_OK);
      EXPECT_EQ(nezha_wait(work, 0.01), NEZHA_TIMED_OUT);
      EXPECT_TRUE(last_details().at("goes_on").bool_or(false));
    }
    // The other call comes when rank 0 has waited, and fails what rank 0 would call after it.
    if (rank == 0) {
      nezha_send(comm, &value, 1, NEZHA_INT32, 1, 0, nullptr, nullptr);
    } else {
      EXPECT_EQ(nezha_recv(comm, &value, 1, NEZHA_INT32, 0, 0, nullptr, nullptr), NEZHA_OK);
    }
    EXPECT_EQ(rank == 0 ? nezha_wait(work, 0) : nezha_barrier(comm, nullptr, nullptr), NEZHA_MISMATCH);
    const JsonValue details = last_details();
    EXPECT_EQ(details.at("code").string_or(""), "mismatch");
    EXPECT_EQ(details.at("ranks").items().size(), 2U);
    EXPECT_EQ(details.at("operation_number").integer_or(-1), 0);
    EXPECT_FALSE(details.at("goes_on").bool_or(true));
    nezha_work_free(work);
  });
}

TEST(Messages, AreProbedBeforeTheyAreReceived) {
  with_world(2, [](int rank, nezha_comm_t comm) {
    std::array<int32_t, 3> values = {5, 6, 7};
    if (rank == 0) {
      EXPECT_EQ(nezha_send(comm, values.data(), 3, NEZHA_INT32, 1, NEZHA_ANY_TAG, nullptr, nullptr),
                NEZHA_INVALID_ARGUMENT);
      EXPECT_EQ(nezha_send(comm, values.data(), 3, NEZHA_INT32, 1, 8, nullptr, nullptr), NEZHA_OK);
      return;
    }
    nezha_message message = NEZHA_MESSAGE_INIT;
    int found = 0;
    EXPECT_EQ(nezha_probe(comm, 0, 8, nullptr, &message), NEZHA_INVALID_ARGUMENT);
    EXPECT_EQ(nezha_probe(comm, 2, 8, &found, &message), NEZHA_INVALID_ARGUMENT);
    while (found == 0) {
      ASSERT_EQ(nezha_probe(comm, NEZHA_ANY_SOURCE, NEZHA_ANY_TAG, &found, &message), NEZHA_OK)
          << nezha_last_error();
    }
    EXPECT_EQ(message.source, 0);
    EXPECT_EQ(message.tag, 8U);
    EXPECT_EQ(message.count, 3U);
    EXPECT_EQ(message.dtype, NEZHA_INT32);
    EXPECT_EQ(nezha_probe(comm, 0, 9, &found, &message), NEZHA_OK);
    EXPECT_EQ(found, 0);
    nezha_work_t work = nullptr;
    std::array<int32_t, 3> received{};
    ASSERT_EQ(nezha_recv(comm, received.data(), 3, NEZHA_INT32, 0, NEZHA_ANY_TAG, nullptr, &work),
              NEZHA_OK);
    EXPECT_EQ(nezha_wait(work, 0), NEZHA_OK);
    EXPECT_EQ(received, values);
    uint32_t tag = 0;
    EXPECT_EQ(nezha_work_tag(work, &tag), NEZHA_OK);
    EXPECT_EQ(tag, 8U);
    nezha_work_free(work);
  });
}

std::atomic<bool> is_called_back{false};

// What waits for rank 1 ends when the check of its thread says so; the last one is nezha_destroy.
TEST(CApi, AThreadThatIsCalledBackWaitsNoLonger) {
  std::atomic<bool> is_over{false};
  with_world(2, [&](int rank, nezha_comm_t comm) {
    nezha_comm_t parts[4] = {};
    for (nezha_comm_t& part : parts) ASSERT_EQ(nezha_split(comm, 0, 0, &part), NEZHA_OK);
    if (rank == 1) {
      while (!is_over) std::this_thread::yield();
    } else {
      is_called_back = true;
      nezha_set_interrupt_check([] { return is_called_back ? 1 : 0; });
      nezha_comm_t child = nullptr;
      nezha_work_t work = nullptr;
      EXPECT_EQ(nezha_split(parts[0], 0, 0, &child), NEZHA_ABORTED) << nezha_last_error();
      EXPECT_EQ(nezha_shrink(parts[1], 0, &child), NEZHA_ABORTED) << nezha_last_error();
      EXPECT_EQ(nezha_barrier(parts[2], nullptr, nullptr), NEZHA_ABORTED) << nezha_last_error();
      ASSERT_EQ(nezha_barrier(parts[3], nullptr, &work), NEZHA_OK);
      EXPECT_EQ(nezha_wait(work, 0), NEZHA_TIMED_OUT);
      EXPECT_NE(std::string(nezha_last_error()).find("interrupted"), std::string::npos);
      nezha_work_free(work);
      EXPECT_EQ(nezha_barrier(parts[3], nullptr, nullptr), NEZHA_ABORTED) << nezha_last_error();
      nezha_set_interrupt_check(nullptr);
      is_over = true;
    }
    for (nezha_comm_t part : parts) nezha_destroy(part);
  });
}

TEST(CApi, SplitAndWorkHandles) {
  with_world(3, [](int rank, nezha_comm_t comm) {
    nezha_comm_t part = reinterpret_cast<nezha_comm_t>(1);
    ASSERT_EQ(nezha_split(comm, rank == 2 ? -1 : 0, -rank, &part), NEZHA_OK) << nezha_last_error();
    if (rank == 2) {
      EXPECT_EQ(part, nullptr);
    } else {
      int place = -1;
      int size = 0;
      EXPECT_EQ(nezha_rank(part, &place), NEZHA_OK);
      EXPECT_EQ(nezha_world_size(part, &size), NEZHA_OK);
      EXPECT_EQ(place, 1 - rank);
      EXPECT_EQ(size, 2);
      int32_t value = 1;
      nezha_work_t work = nullptr;
      ASSERT_EQ(nezha_all_reduce(part, &value, &value, 1, NEZHA_INT32, NEZHA_SUM, nullptr, &work),
                NEZHA_OK);
      nezha_work_free(work);  // waits
      EXPECT_EQ(value, 2);
    }
    nezha_destroy(part);
    EXPECT_EQ(nezha_barrier(comm, nullptr, nullptr), NEZHA_OK) << nezha_last_error();
  });
}

}  // namespace
}  // namespace nezha::testing
