// After a node was lost: whatever each rank had, afterwards all have everything, and nobody serves
// what it does not have.
#include "aggregation/client/recovery_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace nezha::testing {
namespace {

using aggregation::OperationProgress;
using aggregation::RankProgress;
using aggregation::MissingPiece;
using schedule::Range;

constexpr uint64_t kElements = 40;

struct Scene {
  std::vector<RankProgress> progress;                    // by rank
  std::vector<std::vector<std::vector<bool>>> has;  // by operation, rank, element
};

Scene random_scene(std::mt19937& random, int ranks, uint64_t operations) {
  Scene scene;
  scene.progress.resize(static_cast<size_t>(ranks));
  scene.has.assign(operations, std::vector(static_cast<size_t>(ranks), std::vector<bool>(kElements)));
  for (size_t rank = 0; rank < scene.progress.size(); ++rank) {
    RankProgress& progress = scene.progress[rank];
    progress.completed = random() % (operations / 2);
    progress.begun = progress.completed + random() % (operations - progress.completed + 1);
    for (uint64_t seq = 0; seq < progress.begun; ++seq) {
      OperationProgress operation;
      operation.completed = seq < progress.completed || random() % 5 == 0;
      for (uint64_t at = 0; at < kElements && !operation.completed;) {
        const uint64_t end = std::min(kElements, at + 1 + random() % 10);
        if (random() % 2 == 0) operation.held.push_back({at, end});
        at = end;
      }
      std::vector<bool>& has = scene.has[seq][rank];
      if (operation.completed) has.assign(kElements, true);
      for (const Range& range : operation.held) {
        for (uint64_t i = range.begin; i < range.end; ++i) has[i] = true;
      }
      std::shuffle(operation.held.begin(), operation.held.end(), random);
      if (seq >= progress.completed) progress.open.push_back(operation);
    }
  }
  return scene;
}

TEST(RecoveryPlan, EverybodyGetsEverythingFromWhoeverHasIt) {
  std::mt19937 random(7);
  for (int scenario = 0; scenario < 2000; ++scenario) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    const uint64_t operations = 2 + random() % 6;
    const Scene scene = random_scene(random, ranks, operations);
    for (uint64_t seq = 0; seq < operations; ++seq) {
      std::vector<int> filled(kElements);
      uint64_t last = 0;
      for (const MissingPiece& piece : missing_pieces(seq, kElements, scene.progress)) {
        ASSERT_LE(last, piece.range.begin) << "scenario " << scenario;
        ASSERT_LT(piece.range.begin, piece.range.end);
        last = piece.range.end;
        for (uint64_t i = piece.range.begin; i < piece.range.end; ++i) {
          ++filled[i];
          bool anyone = false;
          for (size_t rank = 0; rank < scene.progress.size(); ++rank) anyone |= scene.has[seq][rank][i];
          EXPECT_EQ(piece.holder >= 0, anyone) << "scenario " << scenario << ", element " << i;
          if (piece.holder >= 0) {
            EXPECT_TRUE(scene.has[seq][static_cast<size_t>(piece.holder)][i]);
          }
        }
      }
      for (uint64_t i = 0; i < kElements; ++i) {
        bool all = true;
        for (size_t rank = 0; rank < scene.progress.size(); ++rank) all &= scene.has[seq][rank][i];
        EXPECT_EQ(filled[i], all ? 0 : 1) << "scenario " << scenario << ", element " << i;
      }
    }
  }
}

TEST(RecoveryPlan, ProgressAsBytesAndBack) {
  std::mt19937 random(11);
  for (int scenario = 0; scenario < 300; ++scenario) {
    const Scene scene = random_scene(random, 2, 8);
    for (const RankProgress& progress : scene.progress) {
      const std::string bytes = encode(progress);
      RankProgress read;
      ASSERT_TRUE(decode(bytes, &read));
      EXPECT_EQ(read.completed, progress.completed);
      EXPECT_EQ(read.begun, progress.begun);
      EXPECT_EQ(read.open, progress.open);
      for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 7) {
        EXPECT_FALSE(decode(std::string_view(bytes).substr(0, length), &read));
      }
      EXPECT_FALSE(decode(bytes + "x", &read));
    }
  }
}

TEST(RecoveryPlan, ABarrierThatOneCameThroughIsOver) {
  std::vector<RankProgress> progress(3);
  progress[0] = {4, 6, {{false, {}}, {true, {}}}};
  progress[1] = {4, 6, {{false, {}}, {false, {}}}};
  progress[2] = {4, 5, {{false, {}}}};
  EXPECT_TRUE(anyone_completed(3, progress));
  EXPECT_FALSE(anyone_completed(4, progress));
  EXPECT_TRUE(anyone_completed(5, progress));
}

}  // namespace
}  // namespace nezha::testing
