// DrainClock: how long one direction of a connection was busy, and how many bytes it brought to the
// peer in that time, by the peer's own clock.
//
// A report of landed payloads waits behind all that the peer writes on the same wire. With little
// under way it takes far longer than the payloads did, and the rail would seem slow if the bytes
// were divided by the time between reports. So each message says when it left, and when the latest
// payload before it had landed. The time between two landings needs no common clock, if the second
// payload was under way when the first one landed. Whether it was, and how long a payload took that
// was alone, needs a common clock: the quickest of all messages, in each direction, is taken to
// have needed the least possible time (as in RFC 6817, 3.4).
//
// Contract: pure, owned by one loop. Frames are counted from 0 and mod 2^32, and land in that
// order; at most kFrames are under way. The times that the peer sends are used as they are, but
// time never runs backwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/clock.h"

namespace nezha::transport {

class DrainClock {
 public:
  static constexpr uint32_t kFrames = 32;
  // When something waits and no landing was reported for so long, the time counts as busy.
  static constexpr Nanoseconds kSilence = 50 * kMillisecond;

  // A frame was announced, and waits for the peer to grant memory.
  void announced(Nanoseconds now);
  // Frame `number` has left, with so many bytes.
  void began(uint32_t number, uint64_t bytes, Nanoseconds now);
  // A message came. `peer_sent_at`: when it left, by the peer's clock; `peer_least`: the peer's
  // `least()`.
  void on_preamble(Nanoseconds peer_sent_at, Nanoseconds peer_least, Nanoseconds now);
  // All frames before `count` have landed, the last of them at `peer_at` by the peer's clock.
  void landed(uint32_t count, Nanoseconds peer_at, Nanoseconds now);
  // No frame waits to be granted or to land any more.
  void rests() { waits_ = false; }

  // The least time between the departure of a message at the peer, by its clock, and its arrival
  // here, by our clock; this is sent to the peer.
  Nanoseconds least() const { return back_; }

  // Bytes that have landed, and how long this direction was busy; both only grow.
  uint64_t bytes() const { return bytes_; }
  Nanoseconds busy(Nanoseconds now);
  // Bytes that have left and are not known to have landed, and for how long some of them may have
  // been landing.
  uint64_t under_way() const { return begun_bytes_ - bytes_; }
  Nanoseconds untold(Nanoseconds now) const;

 private:
  // The clocks of two hosts drift apart by at most so much in a second.
  static constexpr Nanoseconds kDriftPerSecond = 50 * kMicrosecond;

  struct Frame {
    uint64_t bytes = 0;
    Nanoseconds began_at = 0;
  };
  void wait(Nanoseconds now);
  // The latency to the peer, as the mean of both directions: the difference of the clocks cancels
  // out.
  Nanoseconds latency() const { return std::max<Nanoseconds>((forth_ + back_) / 2, 0); }
  // Since when the oldest frame under way, which left at `began_at`, has had the wire.
  Nanoseconds since(Nanoseconds began_at) const { return std::max(busy_until_, began_at + latency()); }

  std::array<Frame, kFrames> frames_{};  // by number
  uint32_t landed_ = 0;
  uint64_t begun_bytes_ = 0;
  uint64_t bytes_ = 0;
  Nanoseconds busy_ = 0;
  Nanoseconds busy_until_ = 0;
  bool waits_ = false;
  Nanoseconds news_at_ = 0;  // while something waits: since when, or the latest report
  bool has_heard_ = false;
  Nanoseconds forth_ = 0;    // the peer's least()
  Nanoseconds back_ = 0;
  Nanoseconds heard_at_ = 0;
};

}  // namespace nezha::transport
