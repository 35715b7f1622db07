// AreaTable: which group of a host's ranks has which of the areas in the memory that they share. It is
// how all members of a group come to the same area, or all to none, without a message.
//
// Contract
//   Owner    the object that mapped the memory, which begins as zeros. Any rank, any thread, at any
//            time: nobody waits for anybody, so that a rank can end at any point.
//   Groups   have a key that no other group of the job ever has. The first member to ask decides,
//            by one compare-and-swap: an area that was free, or none. Groups stay in the table for
//            good, so that every member that asks later gets the same answer. A group that finds
//            the table full has no area, now and always.
//   Areas    are free again when all members have left. A member that died without leaving may
//            still write: its areas are never free again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace nezha::memory {

class AreaTable {
 public:
  static constexpr size_t kAreas = 64;
  static constexpr size_t kGroups = 8192;

  explicit AreaTable(std::byte* base) : table_(reinterpret_cast<Table*>(base)) {}

  static constexpr size_t bytes() { return sizeof(Table); }

  // The area of the group with this key; none: the group has none. `ready` provides memory for an
  // area that was free, and says whether it could; `undo` gives that memory back where another
  // member was quicker.
  using Ready = std::function<bool(size_t area)>;
  using Undo = std::function<void(size_t area)>;
  std::optional<size_t> area_of(uint64_t key, const Ready& ready, const Undo& undo);
  // Notes that a member (a bit) leaves. True: it is the last one of `all`, and must `free` the area
  // when the area is zeros again.
  bool leave(size_t area, uint64_t member, uint64_t all);
  void free(size_t area);

 private:
  static constexpr uint64_t kAreaBits = 16;
  static constexpr uint64_t kNone = (uint64_t{1} << kAreaBits) - 1;
  struct alignas(4096) Table {
    std::array<std::atomic<uint64_t>, kGroups> groups;  // key and area; 0: empty
    struct {
      std::atomic<uint64_t> taken;
      std::atomic<uint64_t> left;  // bits of members
    } areas[kAreas];
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  std::optional<size_t> claim(const Ready& ready);

  Table* const table_;
};

}  // namespace nezha::memory
