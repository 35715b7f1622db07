#include "schedule/schedule.h"

#include <algorithm>

namespace nezha::schedule {

Range split(Range range, uint64_t n, uint64_t i) {
  const uint64_t quotient = range.size() / n;
  const uint64_t remainder = range.size() % n;
  const uint64_t begin = range.begin + i * quotient + std::min(i, remainder);
  return {begin, begin + quotient + (i < remainder ? 1 : 0)};
}

Range parts_of(Range chunk, uint32_t parts, uint32_t part_begin, uint32_t part_end) {
  if (part_begin >= part_end) return {chunk.begin, chunk.begin};
  return {split(chunk, parts, part_begin).begin, split(chunk, parts, part_end - 1).end};
}

}  // namespace nezha::schedule
