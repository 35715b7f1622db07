#include "fabric/drain_clock.h"

namespace nezha::transport {

void DrainClock::wait(Nanoseconds now) {
  if (!waits_) news_at_ = now;
  waits_ = true;
}

void DrainClock::announced(Nanoseconds now) { wait(now); }

void DrainClock::began(uint32_t number, uint64_t bytes, Nanoseconds now) {
  wait(now);
  frames_[number % kFrames] = {bytes, now};
  begun_bytes_ += bytes;
}

void DrainClock::on_preamble(Nanoseconds peer_sent_at, Nanoseconds peer_least, Nanoseconds now) {
  const Nanoseconds took = now - peer_sent_at;
  const Nanoseconds drift = (now - heard_at_) / (kSecond / kDriftPerSecond);
  back_ = has_heard_ ? std::min(took, back_ + drift) : took;
  has_heard_ = true;
  heard_at_ = now;
  forth_ = peer_least;
}

void DrainClock::landed(uint32_t count, Nanoseconds peer_at, Nanoseconds now) {
  if (count == landed_) return;
  uint64_t bytes = 0;
  Nanoseconds began_at = now;
  for (; landed_ != count; ++landed_) {
    Frame& frame = frames_[landed_ % kFrames];
    if (frame.bytes > 0) began_at = std::min(began_at, frame.began_at);
    bytes += frame.bytes;
    frame = Frame();
  }
  news_at_ = now;
  if (bytes == 0) return;  // the peer wanted none of them
  const Nanoseconds at = std::min(peer_at - (forth_ - back_) / 2, now);
  bytes_ += bytes;
  busy_ += std::max<Nanoseconds>(at - since(began_at), 0);
  busy_until_ = std::max(busy_until_, at);
}

Nanoseconds DrainClock::busy(Nanoseconds now) {
  if (waits_ && now - news_at_ >= kSilence) {
    busy_ += now - std::max(busy_until_, news_at_);
    busy_until_ = news_at_ = now;
  }
  return busy_;
}

Nanoseconds DrainClock::untold(Nanoseconds now) const {
  const Frame& oldest = frames_[landed_ % kFrames];
  return oldest.bytes == 0 ? 0 : std::max<Nanoseconds>(now - since(oldest.began_at), 0);
}

}  // namespace nezha::transport
