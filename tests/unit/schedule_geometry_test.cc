#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace nezha::schedule {
namespace {

TEST(Split, CoversTheRangeWithoutGapsAndEvenly) {
  for (uint64_t size : {0u, 1u, 2u, 7u, 64u, 65u, 1000u}) {
    for (uint64_t pieces : {1u, 2u, 3u, 7u, 64u}) {
      uint64_t end = 10;
      for (uint64_t i = 0; i < pieces; ++i) {
        const Range piece = split({10, 10 + size}, pieces, i);
        EXPECT_EQ(piece.begin, end);
        EXPECT_GE(piece.size(), size / pieces);
        EXPECT_LE(piece.size(), (size + pieces - 1) / pieces);
        end = piece.end;
      }
      EXPECT_EQ(end, 10 + size);
    }
  }
}

TEST(Split, DoesNotOverflowAtTheLargestSizes) {
  const uint64_t size = uint64_t{1} << 62;
  EXPECT_EQ(split({0, size}, 3, 0).begin, 0u);
  EXPECT_EQ(split({0, size}, 3, 2).end, size);
}

TEST(PartsOf, JoinsNeighbouringParts) {
  const Range chunk{100, 110};
  EXPECT_EQ(parts_of(chunk, 4, 0, 4), chunk);
  EXPECT_EQ(parts_of(chunk, 4, 0, 2), (Range{100, 106}));
  EXPECT_EQ(parts_of(chunk, 4, 2, 4), (Range{106, 110}));
  EXPECT_EQ(parts_of(chunk, 4, 3, 3).size(), 0u);
}

TEST(PartsOf, IsEmptyWherePartsOutnumberElements) {
  const Range chunk{5, 7};
  EXPECT_EQ(parts_of(chunk, 8, 0, 2), chunk);
  EXPECT_EQ(parts_of(chunk, 8, 2, 8).size(), 0u);
}

TEST(ChunkMap, CoversEveryElementOnce) {
  for (uint64_t count : {0u, 1u, 5u, 1000u, 1003u}) {
    for (uint32_t slices : {1u, 3u, 8u}) {
      for (uint32_t chunks : {1u, 4u, 5u}) {
        const ChunkMap map{count, slices, chunks};
        uint64_t total = 0;
        uint64_t end = 0;
        for (uint32_t slice = 0; slice < slices; ++slice) {
          for (uint32_t i = 0; i < chunks; ++i) {
            const uint32_t index = i * slices + slice;
            EXPECT_EQ(map.slice_of(index), slice);
            EXPECT_EQ(map.chunk(index).begin, end);
            end = map.chunk(index).end;
            total += map.chunk(index).size();
          }
        }
        EXPECT_EQ(total, count);
        EXPECT_EQ(map.chunk_count(), slices * chunks);
      }
    }
  }
}

// The order of additions hangs on the slice, so no plan may move an element to another one.
TEST(ChunkMap, ChunkingDoesNotMoveElementsBetweenSlices) {
  const ChunkMap coarse{1003, 8, 1};
  const ChunkMap fine{1003, 8, 7};
  for (uint32_t slice = 0; slice < 8; ++slice) {
    EXPECT_EQ(fine.chunk(slice).begin, coarse.chunk(slice).begin);
    EXPECT_EQ(fine.chunk(6 * 8 + slice).end, coarse.chunk(slice).end);
  }
}

}  // namespace
}  // namespace nezha::schedule
