#include "schedule/chunk_map.h"

#include <algorithm>

namespace nezha::schedule {

Range split(Range range, uint64_t n, uint64_t i) {
  const uint64_t base = range.size() / n;
  const uint64_t longer = range.size() % n;
  const uint64_t begin = range.begin + i * base + std::min(i, longer);
  return {begin, begin + base + (i < longer ? 1 : 0)};
}

Range parts_of(Range chunk, uint32_t parts, uint32_t part_begin, uint32_t part_end) {
  if (part_begin >= part_end) return {chunk.begin, chunk.begin};
  return {split(chunk, parts, part_begin).begin, split(chunk, parts, part_end - 1).end};
}

size_t ChunkMap::block_of(uint32_t slice, Side side) const {
  if (geometry != Geometry::pair_slices) return slice;
  return (side == Side::input ? rank + slice : rank + slices - slice) % slices;
}

Range ChunkMap::chunk(uint32_t index, Side side) const {
  const uint32_t slice = index % slices;
  const uint32_t number = index / slices;
  if (geometry == Geometry::even) {
    return split(split({0, count}, slices, slice), chunks_per_slice, number);
  }
  if (geometry == Geometry::block_parts) return {0, count};
  if (geometry == Geometry::rows) {
    const uint64_t ranks = blocks->output_begin.size() - 1;
    return {0, side == Side::workspace ? ranks * count : count};
  }
  const size_t block = block_of(slice, side);
  const Range range = side == Side::input ? blocks->input(block) : blocks->output(block);
  const uint64_t begin = std::min(range.begin + number * chunk_elements, range.end);
  return {begin, std::min(begin + chunk_elements, range.end)};
}

Range ChunkMap::of_rows(uint32_t part_begin, uint32_t part_end, Side side) const {
  const auto ranks = static_cast<uint32_t>(blocks->output_begin.size() - 1);
  if (side == Side::output) {
    if (part_begin == part_end) return {0, 0};
    return blocks->output(part_begin / ranks);
  }
  const auto place = [&](uint32_t part) {
    return part / ranks * count + blocks->input_begin[part % ranks];
  };
  const uint64_t origin = side == Side::input ? rank * count : 0;
  return {place(part_begin) - origin, place(part_end) - origin};
}

Range ChunkMap::parts(Range chunk, uint32_t parts, uint32_t part_begin, uint32_t part_end,
                      Side side) const {
  if (!is_one_chunk(geometry)) return parts_of(chunk, parts, part_begin, part_end);
  if (geometry == Geometry::rows) return of_rows(part_begin, part_end, side);
  const std::vector<uint64_t>& begin =
      side == Side::input ? blocks->input_begin : blocks->output_begin;
  return {begin[part_begin], begin[part_end]};
}

}  // namespace nezha::schedule
