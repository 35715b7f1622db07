// algorithm_file: jobs that run by schedules of the user's own, and jobs that do not begin by wrong ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "property/schedule_worlds.h"
#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/own_algorithms.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

std::string last_algorithm(World& world, int rank) {
  const std::string flight = world.comm(rank).context().flight_json();
  constexpr std::string_view kKey = "\"algorithm\":\"";
  const size_t at = flight.rfind(kKey) + kKey.size();
  return flight.substr(at, flight.find('"', at) - at);
}

// Numbers of very different sizes, for which any other order of additions gives other bits.
TEST(OwnAlgorithm, AddsInTheOrderOfItsFile) {
  const TempDirectory directory;
  World world({.ranks = 3, .rails = 2,
               .config = "chunk_bytes=4096\nalgorithm_file=" + write_algorithm(directory.path(),
                   kStar) + "\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  constexpr size_t kCount = 50'021;
  std::vector<std::vector<float>> inputs(3, std::vector<float>(kCount));
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<float> mantissa(-1.0F, 1.0F);
  for (auto& input : inputs) {
    for (float& value : input) {
      value = std::ldexp(mantissa(generator), static_cast<int>(generator() % 20));
    }
  }
  std::vector<float> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const float first = inputs[0][i] + inputs[1][i];
    expected[i] = first + inputs[2][i];
  }
  auto outputs = inputs;  // in place
  const auto outcomes = world.run([&](Member& self) {
    std::vector<float>& data = outputs[static_cast<size_t>(self.rank)];
    return self.comm->all_reduce(data.data(), data.data(), kCount, Dtype::float32, ReduceOp::sum, {},
                                 nullptr);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(std::memcmp(outputs[static_cast<size_t>(rank)].data(), expected.data(), 4 * kCount), 0);
    EXPECT_EQ(last_algorithm(world, rank), "file");
  }
}

TEST(OwnAlgorithm, DoesEveryDtypeAndOperator) {
  const TempDirectory directory;
  for (const char* credit : {"65536", "8M"}) {
    World world({.ranks = 4, .rails = 2,
                 .config = std::string("chunk_bytes=65536\ncredit_bytes=") + credit +
                           "\nalgorithm_file=" + write_algorithm(directory.path(), text_book_ring(4)) +
                           "\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases;
    for (const uint64_t count : {0, 3, 1000, 100'003}) {
      for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::int64}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::premul_sum}) {
          if (op == ReduceOp::avg && dtype == Dtype::int64) continue;  // refused
          AllReduceCase at;
          at.dtype = dtype;
          at.op = op;
          at.count = count;
          at.in_place = cases.size() % 2 == 0;
          fill(at, 4, cases.size());
          cases.push_back(std::move(at));
        }
      }
    }
    EXPECT_EQ(run_cases(world, cases), "");
    EXPECT_EQ(last_algorithm(world, 2), "file");
  }
}

// The choice of a call is taken at its word; other collectives and groups of another size choose as ever.
TEST(OwnAlgorithm, IsForItsCollectiveAndItsNumberOfRanks) {
  const TempDirectory directory;
  World world({.ranks = 3, .config = "algorithm=bcube\nalgorithm_file=" +
                                     write_algorithm(directory.path(), kStar) + "\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const auto reduce = [](context::Communicator& comm, Algorithm algorithm) {
    float value = 1;
    context::CallOptions options;
    options.algorithm = algorithm;
    const Status outcome =
        comm.all_reduce(&value, &value, 1, Dtype::float32, ReduceOp::sum, options, nullptr);
    EXPECT_EQ(value, static_cast<float>(comm.world_size()));
    return outcome;
  };
  const std::pair<Algorithm, const char*> calls[] = {{Algorithm::automatic, "file"},
                                                     {Algorithm::ring, "ring"}};
  for (const auto& [asked, ran] : calls) {
    const auto outcomes = world.run([&](Member& self) { return reduce(*self.comm, asked); });
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_EQ(last_algorithm(world, 0), ran);
  }
  auto outcomes = world.run([](Member& self) { return self.comm->barrier({}, nullptr); });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  EXPECT_EQ(last_algorithm(world, 0), "dissemination");
  outcomes = world.run([&](Member& self) {
    auto part = self.comm->split(self.rank == 2 ? 1 : 0, self.rank);
    if (!part) return part.status();
    return reduce(**part, Algorithm::automatic);
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  EXPECT_EQ(last_algorithm(world, 0), "bcube");
}

Status join_with(int rank, int ranks, const std::string& store, const std::string& path) {
  context::ContextRequest request = request_of(rank, ranks, store);
  request.config.append("algorithm_file=" + path + "\n");
  return join(request).status();
}

// Its one rank would wait for the others in the store for longer than the test lasts.
TEST(OwnAlgorithm, ThatIsWrongKeepsTheRankFromTheStore) {
  const TempDirectory directory;
  const std::string path = write_algorithm(directory.path(), replaced(kStar, ", final", ""));
  const Status refused = join_with(0, 3, fresh_store(), path);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  const std::string place = path + ": line 7, rank 0, slice 0, round 1, step 1";
  EXPECT_NE(refused.message().find("rank 0: algorithm_file " + place), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("avg does not scale"), std::string::npos) << refused.message();
  const Status other = join_with(0, 4, fresh_store(), write_algorithm(directory.path(), kStar));
  EXPECT_NE(other.message().find("it is for 3 ranks, and the job has 4"), std::string::npos)
      << other.message();
  EXPECT_FALSE(join_with(0, 3, fresh_store(), directory.path() + "/none").is_ok());
}

TEST(OwnAlgorithm, ThatDiffersBetweenRanksIsAMismatch) {
  const TempDirectory directory;
  const TempDirectory other;
  const std::string store = fresh_store();
  Status outcomes[3];
  const std::string paths[] = {write_algorithm(directory.path(), kStar),
                               write_algorithm(other.path(), std::string(kStar) + "# mine\n")};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] { outcomes[rank] = join_with(rank, 3, store, paths[rank / 2]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outcomes[2].code(), Code::mismatch) << outcomes[2].to_string();
  EXPECT_NE(outcomes[2].message().find("algorithm_file="), std::string::npos) << outcomes[2].message();
}

// Every schedule of the catalog, taken from its text, does what it does from the catalog: a collective of
// blocks with blocks of different lengths, and one with a root that is not 0.
TEST(OwnAlgorithm, FromAPrintedScheduleDoesTheSame) {
  const TempDirectory directory;
  for (const schedule::AlgorithmEntry& entry : schedule::catalog()) {
    if (entry.collective != Collective::all_gather && entry.collective != Collective::broadcast) continue;
    const int root = entry.collective == Collective::broadcast ? 2 : 0;
    const std::string path =
        write_algorithm(directory.path(), schedule::to_text(schedule::make_world(entry, 3, root)));
    World world({.ranks = 3, .rails = 2, .config = "chunk_bytes=4096\nalgorithm_file=" + path + "\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    const auto outcomes = world.run([&](Member& self) {
      if (entry.collective == Collective::broadcast) {
        std::vector<int32_t> data(3000, self.rank);
        NEZHA_RETURN_IF_ERROR(
            self.comm->broadcast(data.data(), data.size(), Dtype::int32, root, {}, nullptr));
        EXPECT_EQ(data, std::vector<int32_t>(3000, 2));
        return Status::ok();
      }
      const uint64_t counts[] = {500, 0, 300};
      const std::vector<int32_t> mine(counts[self.rank], self.rank);
      std::vector<int32_t> all(800, -1);
      NEZHA_RETURN_IF_ERROR(
          self.comm->all_gather_v(mine.data(), all.data(), counts, Dtype::int32, {}, nullptr));
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i < 500 ? 0 : 2);
      return Status::ok();
    });
    for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_EQ(last_algorithm(world, 1), "file") << name_of(entry.algorithm);
  }
}

}  // namespace
}  // namespace nezha::testing
