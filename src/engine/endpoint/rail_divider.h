// RailDivider: asks a policy how an operation is to be divided among the rails: when it begins,
// whenever a rail goes or returns, and every so often while it runs; and tells the policy what came
// of it.
//
// Contract: owned by the engine, progress lock held. A transfer is bound to a rail as late as possible
// (peer_links.h), so a decision holds for all that has not been posted yet, however long it has
// waited.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "rails/policy.h"
#include "engine/endpoint/constants.h"
#include "engine/endpoint/division.h"
#include "engine/endpoint/peer_table.h"

namespace nezha::engine {

class RailDivider {
 public:
  // By rail of this rank; the first `rails` of them count.
  using Snapshots = std::array<rails::RailSnapshot, rails::kRailsMax>;

  // `nominal_bytes_per_s`: the rates that are assumed while no peer is connected.
  RailDivider(const PeerTable& peers, uint32_t rails, const std::vector<double>& nominal_bytes_per_s)
      : peers_(peers), rails_(rails), nominal_bytes_per_s_(nominal_bytes_per_s) {}

  // A division for one operation. When it is closed, transfers that still name it go on whichever rail
  // is soonest. May throw std::bad_alloc.
  struct Close {
    RailDivider* divider = nullptr;
    void operator()(Division* division) const { divider->close(*division); }
  };
  using Open = std::unique_ptr<Division, Close>;
  Open open();
  // The division that a transfer names; null: it is closed.
  Division* find(uint64_t number) {
    Division& division = divisions_[number & kSlotMask];
    return division.number == number && division.policy != nullptr ? &division : nullptr;
  }

  void begin(Division& division, rails::Policy& policy, const rails::OpClass& op, Nanoseconds now);
  // The shares for the next transfer of the operation; asks the policy for a review if one is due.
  const rails::Shares& shares(Division& division, Nanoseconds now);
  // A timed transfer of the operation was acknowledged. The rail was busy with it since it was
  // posted, or since the transfer before it landed there, so that time in which operations share a
  // rail is divided among them.
  void landed(Division& division, uint32_t rail, uint64_t bytes, Nanoseconds posted, Nanoseconds now);
  // The operation is over: the policy learns from it.
  void learn(const Division& division, Nanoseconds now);
  // A connection was lost, fell silent, or returned: what was decided before holds no longer.
  void rails_changed() { ++epoch_, seen_at_ = kNever; }

  Snapshots snapshots() const;

 private:
  // The part of a division's number that is its place in `divisions_`; the rest counts its uses.
  static constexpr uint64_t kSlotMask = 0xFFFFFFFF;

  void close(Division& division) noexcept;
  const Snapshots& seen(Nanoseconds now);
  // A decision that lasts, until the rails are looked at again.
  struct Lasting {
    uint32_t group = 0;
    int size = 0;           // bit_width of the bytes
    rails::Shares shares; // number 0: none
    // How many operations the policy has not been told of, and how long they took together.
    uint32_t untold = 0;
    Nanoseconds untold_for = 0;
  };
  Lasting& lasting(const rails::OpClass& op) { return lasting_[static_cast<size_t>(op.collective)]; }
  static int size_of(const rails::OpClass& op) { return static_cast<int>(std::bit_width(op.bytes)); }

  rails::OpSample sample(const Division& division, Nanoseconds since, bool all, Nanoseconds now,
                           const Snapshots& rails) const;
  void decide(Division& division, const rails::Shares& shares, const Snapshots& rails,
              Nanoseconds now);

  const PeerTable& peers_;
  const uint32_t rails_;
  const std::vector<double>& nominal_bytes_per_s_;  // by rail; empty: not known
  std::array<Nanoseconds, rails::kRailsMax> landed_at_{};  // the latest timed transfer, by rail
  Snapshots seen_;
  Nanoseconds seen_at_ = kNever;
  uint64_t epoch_ = 0;
  uint64_t decisions_ = 0;
  std::array<Lasting, kCollectiveCount> lasting_;
  std::deque<Division> divisions_{1};  // [0] is never used: number 0 names none
  std::vector<Division*> free_;        // has room for all of them
};

}  // namespace nezha::engine
