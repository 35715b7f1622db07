// ChunkMap: which elements a chunk and a step mean, in the input, in the output and in a workspace, which
// has the elements of the output except for Geometry::rows: there it has those of all ranks' inputs.
//
// Contract: plain values, any thread. Elements are counted along the whole vector of the operation:
// where a buffer holds one block only, it begins at that block's place (`input_origin`,
// `output_origin`). Chunks are numbered across slices first (0 of every slice, then 1 of every
// slice ...), so that every rank has work from the first chunk on.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace nezha::schedule {

// A range of elements.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// The i-th of n even pieces of `range`; the first (size mod n) pieces are one element longer.
Range split(Range range, uint64_t n, uint64_t i);

// Elements of parts [part_begin, part_end) of a chunk that is cut evenly.
Range parts_of(Range chunk, uint32_t parts, uint32_t part_begin, uint32_t part_end);

// The blocks of the vector, in elements: block b is [begin[b], begin[b + 1]). They differ between
// input and output for all_to_all only.
struct Blocks {
  std::vector<uint64_t> input_begin;
  std::vector<uint64_t> output_begin;

  Range input(size_t block) const { return {input_begin[block], input_begin[block + 1]}; }
  Range output(size_t block) const { return {output_begin[block], output_begin[block + 1]}; }
};

enum class Side : uint8_t { input, output, workspace };

struct ChunkMap {
  uint64_t count = 0;  // elements of the vector
  uint32_t slices = 1;
  uint32_t chunks_per_slice = 1;
  Geometry geometry = Geometry::even;
  // For blocks: chunk k of a block is its elements [k, k + 1) x chunk_elements, as far as it has
  // them. This rule needs no other rank's block lengths.
  uint64_t chunk_elements = 0;
  const Blocks* blocks = nullptr;
  uint32_t rank = 0;

  uint32_t chunk_count() const { return slices * chunks_per_slice; }
  uint32_t slice_of(uint32_t chunk) const { return chunk % slices; }
  Range chunk(uint32_t index, Side side) const;
  // Elements of a step's parts within a chunk, whose range on that side is `chunk`.
  Range parts(Range chunk, uint32_t parts, uint32_t part_begin, uint32_t part_end, Side side) const;
  // Blocks end at different chunks: behind its end a block has no messages. Chunk 0 always has
  // messages, so that ranks whose programs disagree notice.
  bool is_absent(uint32_t index, Range range) const {
    return range.size() == 0 && index >= slices && geometry != Geometry::even;
  }

 private:
  size_t block_of(uint32_t slice, Side side) const;
  Range of_rows(uint32_t part_begin, uint32_t part_end, Side side) const;
};

}  // namespace nezha::schedule
