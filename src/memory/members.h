// Members: the ranks of an area in one operation, as one of them sees the others: how far they are,
// and whether they make the same call.
//
// Contract
//   Owner    the operation; one thread, or the progress lock. The area outlives it.
//   Calls    a rank writes its call beside each piece before it posts the piece; the others compare
//            it with their own, to the byte, before they take anything from that rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "memory/area.h"
#include "wire/frame.h"

namespace nezha::memory {

struct Call {
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const uint64_t> counts;  // of the blocks; empty: even. Not kept
  double factor = 1.0;  // of each input in a premul_sum or avg
  uint64_t op_seq = 0;
  uint64_t comm = 0;
  wire::OpDescriptor op;
};

inline uint64_t bit_of(int member) { return uint64_t{1} << member; }

class Members {
 public:
  // The first member that is behind; the next look goes on from there.
  struct Watch {
    int member = 0;
    bool waits = false;
    uint64_t waited_for() const { return waits ? bit_of(member) : 0; }
  };

  Members(Area& area, const Call& call) : area_(&area) {
    wire::FrameHeader header;
    header.comm = call.comm;
    header.op_seq = call.op_seq;
    header.op = call.op;
    wire::encode(header, wire::HeaderBytes(header_));
  }

  // Whether none of the other members is behind.
  template <class Behind>
  bool all(Watch& watch, Behind behind) {
    for (; watch.member < area_->ranks(); ++watch.member) {
      watch.waits = watch.member != area_->rank() && behind(watch.member);
      if (watch.waits) return false;
    }
    watch = Watch();
    return true;
  }
  // Writes this rank's call beside its piece of that number.
  void say(uint64_t piece) { area_->header(area_->rank(), piece) = header_; }
  // Whether a member that has posted the piece makes the same call as this rank. A member is
  // compared once an operation, because it says the same of all its pieces.
  bool agrees(int member, uint64_t piece) {
    const uint64_t bit = bit_of(member);
    if ((compared_ & bit) != 0) return true;
    if (area_->header(member, piece) != header_) {
      disagrees_ = member;
      return false;
    }
    compared_ |= bit;
    return true;
  }
  // A member whose call differs from this rank's; -1: none.
  int disagrees() const { return disagrees_; }
  // The member's call, as it stands beside that piece; none when it cannot be read.
  std::optional<wire::OpDescriptor> said_by(int member, uint64_t piece) const {
    const HeaderBytes bytes = area_->header(member, piece);
    wire::FrameHeader header;
    const bool is_one = wire::decode(wire::ConstHeaderBytes(bytes), &header) == wire::HeaderError::none;
    return is_one ? std::optional(header.op) : std::nullopt;
  }

 private:
  Area* area_;
  HeaderBytes header_;
  uint64_t compared_ = 0;  // bits of members whose call is ours
  int disagrees_ = -1;
};

}  // namespace nezha::memory
