// DrainClock: how long one direction of a connection was busy, and what it brought to the peer in that
// time, by the peer's own clock.
//
// News of what landed waits behind all that the peer writes on the same wire; with little under way it
// takes far longer than the payloads did, and bytes per time of news would say that the rail is slow. So
// each message says when it left and when the latest payload before it had landed. The time between two
// landings needs no common clock, if the second payload was on its way when the first one landed.
// Whether it was, and how long one took that was alone, needs one: the quickest message of all, each way,
// is taken to have needed the least that the way takes (as in RFC 6817, 3.4).
//
// Contract: pure, owned by one loop. Frames are counted from 0 and mod 2^32, and land in that order; at
// most kFrames are under way. What the peer says is believed, but never so that time runs backwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/clock.h"

namespace nezha::transport {

class DrainClock {
 public:
  static constexpr uint32_t kFrames = 32;
  // After so long without news of what waits, time counts though nothing is known to have landed.
  static constexpr Nanoseconds kSilence = 50 * kMillisecond;

  // Something waits for the peer to say where it goes.
  void announced(Nanoseconds now);
  // Frame `number` left, with so many bytes.
  void began(uint32_t number, uint64_t bytes, Nanoseconds now);
  // A message came: when it left by the peer's clock, and what the peer's `least()` was.
  void heard(Nanoseconds peer_sent_at, Nanoseconds peer_least, Nanoseconds now);
  // All frames before `count` have, the last of them at `peer_at` by the peer's clock.
  void landed(uint32_t count, Nanoseconds peer_at, Nanoseconds now);
  // Nothing waits any more.
  void rests() { waits_ = false; }

  // The least that a message took from the peer, by its clock, to here, by ours: for the peer.
  Nanoseconds least() const { return back_; }

  // Both only grow.
  uint64_t bytes() const { return bytes_; }
  Nanoseconds busy(Nanoseconds now);
  // What left and is not known to have landed; for how long some of it may have been landing.
  uint64_t under_way() const { return begun_bytes_ - bytes_; }
  Nanoseconds untold(Nanoseconds now) const;

 private:
  // Clocks of two hosts drift apart by no more than this.
  static constexpr Nanoseconds kDriftPerSecond = 50 * kMicrosecond;

  struct Frame {
    uint64_t bytes = 0;
    Nanoseconds began_at = 0;
  };
  void wait(Nanoseconds now);
  // Of the way there; the clocks' difference cancels out.
  Nanoseconds latency() const { return std::max<Nanoseconds>((forth_ + back_) / 2, 0); }
  // Since when the oldest frame under way has had the wire.
  Nanoseconds since(Nanoseconds began_at) const { return std::max(busy_until_, began_at + latency()); }

  std::array<Frame, kFrames> frames_{};  // by number
  uint32_t landed_ = 0;
  uint64_t begun_bytes_ = 0;
  uint64_t bytes_ = 0;
  Nanoseconds busy_ = 0;
  Nanoseconds busy_until_ = 0;
  bool waits_ = false;
  Nanoseconds news_at_ = 0;  // while it waits: since when, or the latest news
  bool has_heard_ = false;
  Nanoseconds forth_ = 0;    // the peer's least()
  Nanoseconds back_ = 0;
  Nanoseconds heard_at_ = 0;
};

}  // namespace nezha::transport
