#include <gtest/gtest.h>

#include <vector>

#include "schedule/chunk_map.h"

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
            EXPECT_EQ(map.chunk(index, Side::output).begin, end);
            end = map.chunk(index, Side::output).end;
            total += map.chunk(index, Side::output).size();
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
    EXPECT_EQ(fine.chunk(slice, Side::input).begin, coarse.chunk(slice, Side::input).begin);
    EXPECT_EQ(fine.chunk(6 * 8 + slice, Side::input).end, coarse.chunk(slice, Side::input).end);
  }
}

// Blocks of 5, 0, 12 and 1 elements, of which chunks take 4.
class ChunksOfBlocks : public ::testing::Test {
 protected:
  const Blocks blocks_{{0, 5, 5, 17, 18}, {0, 5, 5, 17, 18}};
  const ChunkMap map_{18, 4, 3, Geometry::block_slices, 4, &blocks_, 0};
};

TEST_F(ChunksOfBlocks, CoverEveryBlockFromItsBeginning) {
  for (uint32_t slice = 0; slice < 4; ++slice) {
    uint64_t end = blocks_.output_begin[slice];
    for (uint32_t i = 0; i < 3; ++i) {
      const Range chunk = map_.chunk(i * 4 + slice, Side::output);
      EXPECT_EQ(chunk.begin, end);
      EXPECT_LE(chunk.size(), 4u);
      end = chunk.end;
    }
    EXPECT_EQ(end, blocks_.output_begin[slice + 1]);
  }
  EXPECT_EQ(map_.chunk(2, Side::input), (Range{5, 9}));
  EXPECT_EQ(map_.chunk(8 + 2, Side::input), (Range{13, 17}));
}

TEST_F(ChunksOfBlocks, AreAbsentBehindTheEndButNeverTheFirst) {
  std::vector<uint32_t> absent;
  for (uint32_t index = 0; index < map_.chunk_count(); ++index) {
    if (map_.is_absent(index, map_.chunk(index, Side::output))) absent.push_back(index);
  }
  // The second chunks of blocks 1 and 3, the third of all but block 2.
  EXPECT_EQ(absent, (std::vector<uint32_t>{5, 7, 8, 9, 11}));
  const ChunkMap even{1, 4, 3};
  EXPECT_FALSE(even.is_absent(11, even.chunk(11, Side::output)));
}

TEST(ChunkMap, PartsAreBlocksWhereOneMessageHoldsSeveral) {
  const Blocks blocks{{0, 5, 5, 17}, {0, 5, 5, 17}};
  const ChunkMap map{17, 1, 1, Geometry::block_parts, 0, &blocks, 1};
  const Range chunk = map.chunk(0, Side::output);
  EXPECT_EQ(chunk, (Range{0, 17}));
  EXPECT_EQ(map.parts(chunk, 3, 0, 1, Side::output), (Range{0, 5}));
  EXPECT_EQ(map.parts(chunk, 3, 1, 3, Side::output), (Range{5, 17}));
  EXPECT_EQ(map.parts(chunk, 3, 1, 2, Side::output).size(), 0u);
  EXPECT_EQ(map.parts(chunk, 3, 3, 3, Side::output).size(), 0u);
}

// Part 3 r + s is the block from rank r for rank s.
TEST(ChunkMap, RowsAreWholeInputsAndBlocksOfTheOutput) {
  const Blocks blocks{{0, 4, 8, 12}, {0, 4, 8, 12}};
  const ChunkMap map{12, 1, 1, Geometry::rows, 0, &blocks, 1};
  EXPECT_EQ(map.chunk(0, Side::input), (Range{0, 12}));
  EXPECT_EQ(map.chunk(0, Side::output), (Range{0, 12}));
  EXPECT_EQ(map.chunk(0, Side::workspace), (Range{0, 36}));
  const auto parts = [&](uint32_t begin, uint32_t end, Side side) {
    return map.parts(map.chunk(0, side), 9, begin, end, side);
  };
  EXPECT_EQ(parts(3, 6, Side::input), (Range{0, 12}));  // its own
  EXPECT_EQ(parts(4, 5, Side::input), (Range{4, 8}));
  EXPECT_EQ(parts(3, 9, Side::workspace), (Range{12, 36}));
  EXPECT_EQ(parts(7, 8, Side::workspace), (Range{28, 32}));
  EXPECT_EQ(parts(7, 8, Side::output), (Range{8, 12}));  // what rank 2 has for it
  EXPECT_EQ(parts(6, 6, Side::workspace).size(), 0u);
}

// What a rank sends in a slice is what the other one receives in it: 10 x sender + receiver elements.
TEST(ChunkMap, PairsOfRanksMeetInASlice) {
  constexpr uint32_t kWorld = 5;
  const auto length = [](uint32_t from, uint32_t to) { return uint64_t{10} * from + to; };
  const auto blocks_of = [&](uint32_t rank) {
    Blocks blocks{{0}, {0}};
    for (uint32_t other = 0; other < kWorld; ++other) {
      blocks.input_begin.push_back(blocks.input_begin.back() + length(rank, other));
      blocks.output_begin.push_back(blocks.output_begin.back() + length(other, rank));
    }
    return blocks;
  };
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const Blocks own = blocks_of(rank);
    const ChunkMap map{0, kWorld, 8, Geometry::pair_slices, 7, &own, rank};
    for (uint32_t index = 0; index < map.chunk_count(); ++index) {
      const uint32_t to = (rank + map.slice_of(index)) % kWorld;
      const Blocks others = blocks_of(to);
      // The other rank's blocks are shorter or longer, and so may be the number of its chunks.
      const ChunkMap other{0, kWorld, 9, Geometry::pair_slices, 7, &others, to};
      const Range sent = map.chunk(index, Side::input);
      const Range received = other.chunk(index, Side::output);
      EXPECT_EQ(sent.size(), received.size());
      EXPECT_EQ(map.is_absent(index, sent), other.is_absent(index, received));
      EXPECT_GE(sent.begin, own.input(to).begin);
      EXPECT_LE(sent.end, own.input(to).end);
      EXPECT_GE(received.begin, others.output(rank).begin);
      EXPECT_LE(received.end, others.output(rank).end);
    }
  }
}

}  // namespace
}  // namespace nezha::schedule
