// algorithm_file: what is proved of a user's schedules, and the sentence about one that is wrong.
#include "proof/algorithm_file.h"

#include <gtest/gtest.h>

#include <string>

#include "schedule/plan.h"
#include "support/own_algorithms.h"

namespace nezha::schedule {
namespace {

using nezha::testing::kStar;
using nezha::testing::replaced;
using nezha::testing::text_book_ring;

std::string refusal(const std::string& text) {
  const Result<ProvedAlgorithm> proved = prove_algorithm(text);
  if (proved) return "proved";
  EXPECT_EQ(proved.status().code(), Code::invalid_argument);
  return proved.status().message();
}

TEST(AlgorithmFile, HasTheShapeThatPlansNeed) {
  Result<ProvedAlgorithm> star = prove_algorithm(kStar);
  ASSERT_TRUE(star) << star.status().to_string();
  EXPECT_TRUE(star->algorithm.does(Collective::all_reduce, 3, 1));
  EXPECT_FALSE(star->algorithm.does(Collective::all_reduce, 4, 0));
  EXPECT_FALSE(star->algorithm.does(Collective::broadcast, 3, 0));
  EXPECT_EQ(star->algorithm.shape.slices, 1u);
  EXPECT_TRUE(star->algorithm.shape.exchanges);  // rank 2's addition waits for that of rank 1
  EXPECT_EQ(star->algorithm.shape.pair_load, 1u);
  EXPECT_EQ(star->messages, 4u);
  Result<ProvedAlgorithm> ring = prove_algorithm(text_book_ring(4));
  ASSERT_TRUE(ring) << ring.status().to_string();
  EXPECT_TRUE(ring->algorithm.shape.exchanges);
  EXPECT_EQ(ring->algorithm.shape.pair_load, 2u);
  EXPECT_EQ(ring->algorithm.shape.parts, 4u);
}

// What a pair sends within the window fits into its credit: each part twice, and the headers.
TEST(AlgorithmFile, PlansKeepToTheCredit) {
  Result<ProvedAlgorithm> ring = prove_algorithm(text_book_ring(4));
  ASSERT_TRUE(ring);
  for (const uint64_t credit : {uint64_t{65536}, uint64_t{1} << 20, uint64_t{8} << 20}) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{100}, uint64_t{100'000}, uint64_t{10'000'000}}) {
      PlanRequest request;
      request.world_size = 4;
      request.count = count;
      request.credit_bytes = credit;
      request.chunk_bytes_max = 65536;
      request.algorithm = Algorithm::file;
      request.file = &ring->algorithm;
      Result<Plan> plan = make_plan(request, CostTable());
      ASSERT_TRUE(plan) << plan.status().to_string();
      const uint64_t chunk = (count + plan->chunks_per_slice - 1) / plan->chunks_per_slice * 4;
      EXPECT_LE(plan->window * (2 * chunk + 6 * 64), credit) << count;
      EXPECT_EQ(plan->algorithm, Algorithm::file);
    }
  }
}

// Steps of the star, as they are printed.
const std::string kAddOne = "recv_reduce parts [0, 1) from rank 1 (stage 0, slot 0), from_input";
const std::string kAddTwo = "recv_reduce parts [0, 1) from rank 2 (stage 0, slot 0), final";
const std::string kGive = "send parts [0, 1) to rank 0 (stage 0, slot 0), from_input";
const std::string kTake = "recv parts [0, 1) from rank 0 (stage 1, slot 0)";
const std::string kLastRound = "    " + kGive + "\n    " + kTake + "\n";

std::string at(int line, int rank, int round, int step, const std::string& text) {
  return "line " + std::to_string(line) + ", rank " + std::to_string(rank) + ", slice 0, round " +
         std::to_string(round) + ", step " + std::to_string(step) + " (" + text + ")";
}

TEST(AlgorithmFile, WithoutAContributionIsRefused) {
  std::string text = replaced(kStar, "  round 1\n    " + kAddTwo + "\n", "");
  text = replaced(replaced(text, kAddOne, kAddOne + ", final"), "round 2", "round 1");
  EXPECT_EQ(refusal(text), at(19, 2, 0, 0, kGive) + ": no rank receives this");
  text = text.substr(0, text.rfind("    " + kGive)) + "    " + kTake + "\n";
  EXPECT_EQ(refusal(text), at(5, 0, 0, 0, kAddOne + ", final") +
                               ": part 0 of the output: the result lacks the contribution of rank 2");
}

TEST(AlgorithmFile, ThatAddsTwiceIsRefused) {
  const std::string again = "recv_reduce parts [0, 1) from rank 1 (stage 0, slot 1)";
  std::string text = replaced(replaced(kStar, "round 2", "round 3"), "round 1", "round 2");
  text = replaced(text, kAddOne, kAddOne + "\n  round 1\n    " + again);
  const size_t first = text.find(kGive);
  text.insert(first, "send parts [0, 1) to rank 0 (stage 0, slot 1), from_input\n    ");
  EXPECT_EQ(refusal(text), at(7, 0, 1, 1, again) +
                               ": a contribution is counted twice, or a scaled value is used again");
}

TEST(AlgorithmFile, ThatDeadlocksIsRefused) {
  const std::string give = "send parts [0, 1) to rank 0 (stage 0, slot 0)";
  const std::string text =
      replaced(kStar, kLastRound, "    " + kTake + "\n  round 1\n    " + give + "\n");
  EXPECT_EQ(refusal(text), at(5, 0, 0, 0, kAddOne) + ": deadlock: its sender never reaches its round: " +
                               at(17, 1, 1, 1, give));
}

TEST(AlgorithmFile, ThatReadsWhatNobodyWroteIsRefused) {
  const std::string give = "send parts [0, 1) to rank 0 (stage 0, slot 0)";
  EXPECT_EQ(refusal(replaced(kStar, kGive, give)),
            at(15, 1, 0, 0, give) + ": reads a range that nothing has written yet");
}

TEST(AlgorithmFile, InWhichTwoStepsWriteAtOnceIsRefused) {
  const std::string text = replaced(replaced(kStar, "  round 1\n", ""), "round 2", "round 1");
  EXPECT_EQ(refusal(text), at(5, 0, 0, 0, kAddOne) +
                               ": one step of a round writes what another one uses: " +
                               at(6, 0, 0, 1, kAddTwo));
}

// Two ranks that exchange all they have.
std::string exchange(const char* source, const char* order) {
  std::string text;
  for (const int rank : {0, 1}) {
    const std::string peer = std::to_string(1 - rank) + " (stage 0, slot 0), from_input";
    text += "all_reduce by ring: rank " + std::to_string(rank) +
            " of 2, root 0\nslice 0, chunks of 1 parts\nround 0\nsend parts [0, 1) to rank " + peer +
            source + "\nrecv_reduce parts [0, 1) from rank " + peer + (rank == 1 ? order : "") +
            ", final\n";
  }
  return text;
}

TEST(AlgorithmFile, ThatOverwritesWhatIsStillOnItsWayIsRefused) {
  const std::string tag = "rank 1 (stage 0, slot 0), from_input";
  EXPECT_EQ(refusal(exchange("", ", peer_first")),
            at(5, 0, 0, 1, "recv_reduce parts [0, 1) from " + tag + ", final") +
                ": may overwrite a source before its delivery: " +
                at(4, 0, 0, 0, "send parts [0, 1) to " + tag));
  EXPECT_EQ(refusal(exchange(", copy_source", ", peer_first")), "proved");
}

TEST(AlgorithmFile, ThatAddsInAnotherOrderOnEveryRankIsRefused) {
  EXPECT_EQ(refusal(exchange(", copy_source", "")),
            at(10, 1, 0, 1, "recv_reduce parts [0, 1) from rank 0 (stage 0, slot 0), from_input, final") +
                ": part 0 of the output: added in another order than on rank 0");
}

TEST(AlgorithmFile, ThatSendsTooMuchBetweenTwoRanksIsRefused) {
  std::string text = "broadcast by chain: rank 0 of 2, root 0\nslice 0, chunks of 1 parts\nround 0\n";
  std::string other = "broadcast by chain: rank 1 of 2, root 0\nslice 0, chunks of 1 parts\n";
  for (int i = 0; i < 3; ++i) {
    const std::string tag = "(stage " + std::to_string(i) + ", slot 0)\n";
    text += "send parts [0, 1) to rank 1 " + replaced(tag, "\n", "") + ", from_input\n";
    other += "round " + std::to_string(i) + "\nrecv parts [0, 1) from rank 0 " + tag;
  }
  EXPECT_EQ(refusal(text + other), "line 6: rank 0 sends rank 1 part 0 of slice 0 more than 2 times");
  std::string barrier[2];
  for (int rank = 0; rank < 2; ++rank) {
    const std::string peer = std::to_string(1 - rank);
    barrier[rank] = "barrier by direct: rank " + std::to_string(rank) +
                    " of 2, root 0\nslice 0, chunks of 1 parts\nround 0\n";
    std::string receives;
    for (int i = 0; i < 129; ++i) {
      const std::string tag = " (stage " + std::to_string(i) + ", slot 0)\n";
      barrier[rank] += "send parts [0, 0) to rank " + peer + tag;
      receives += "recv parts [0, 0) from rank " + peer + tag;
    }
    barrier[rank] += receives;
  }
  EXPECT_EQ(refusal(barrier[0] + barrier[1]), "line 132: rank 0 sends rank 1 more than 128 messages");
}

TEST(AlgorithmFile, OfAllToAllVIsUnsupported) {
  const Result<ProvedAlgorithm> proved = prove_algorithm(
      "all_to_all_v by pairwise: rank 0 of 1, root 0\nslice 0, chunks of 1 parts\nround 0\n"
      "copy parts [0, 1), from_input\n");
  ASSERT_FALSE(proved);
  EXPECT_EQ(proved.status().code(), Code::unsupported);
}

}  // namespace
}  // namespace nezha::schedule
