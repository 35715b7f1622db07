// FakeLink and FakeWire: a wire without a network, whose frames a test moves by hand.
//
// Contract: see transport/wire.h. Nothing arrives, breaks or is noticed unless the test says so, so a
// test can stop the world between any two frames, or in the middle of one. With a FakeNetwork below it
// each frame has a time at which it arrives instead.
//   Owner    the test; the link lives as long as somebody holds it.
//   Threads  one.
//   Memory   a frame leaves as a whole, with a copy of its payload.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "transport/connection.h"

namespace nezha::transport {

class FakeLink;
class FakeWire;

struct FakeFrame {
  std::array<std::byte, wire::kHeaderBytes> header;
  std::vector<std::byte> payload;
  Nanoseconds header_due = 0;  // with a network: when the header and when the last byte arrives
  Nanoseconds end_due = 0;
};

enum class FakeMoment : uint8_t { sent, half_landed, landed, released };

// What decides when frames arrive, and sees them pass. Side `to` is the one they go to. No call may
// change a link or a connection, except that `tamper` may change the frames it is given.
class FakeNetwork {
 public:
  virtual ~FakeNetwork() = default;
  // Sets the times of a frame that leaves now; they never go back from one frame to the next.
  virtual void admit(const FakeLink& link, int to, FakeFrame& frame) = 0;
  // The other side gave the connection up: how many of `under_way` frames arrive all the same, and
  // when `to` hears of it.
  virtual size_t survivors(const FakeLink& link, int to, size_t under_way) = 0;
  virtual Nanoseconds end_heard(const FakeLink& link, int to) = 0;
  // When the other host's kernel last acknowledged something to side `of`.
  virtual Nanoseconds host_heard(const FakeLink& link, int of) = 0;
  // A frame was put behind `under_way`, as its last.
  virtual void tamper(const FakeLink& link, int to, std::deque<FakeFrame>& under_way) = 0;
  virtual void saw(const FakeLink& link, int to, const wire::FrameHeader& header,
                   FakeMoment moment) = 0;
};

// The two queues between side 0 and side 1.
class FakeLink : public std::enable_shared_from_this<FakeLink> {
 public:
  // At most `capacity_frames` data frames are under way in one direction.
  static std::shared_ptr<FakeLink> create(size_t capacity_frames = SIZE_MAX,
                                          FakeNetwork* network = nullptr);

  // The wire of that side, for a Connection.
  std::unique_ptr<Wire> wire(int side, Nanoseconds now = 0);
  // A connection on it that has started.
  std::unique_ptr<Connection> connect(int side, ConnectionEvents& events, Nanoseconds now = 0);

  // Moves up to `frames` frames into side `to`, and tells it when the other side is gone; returns
  // how many arrived.
  size_t deliver(int to, size_t frames = SIZE_MAX);
  // The header and the first half of the payload of the next frame; `deliver` brings the rest.
  void deliver_half(int to);
  // Puts a frame on its way to `to` that the other side never sent.
  void inject(int to, const wire::FrameHeader& header);
  // What is under way is lost, and both sides notice.
  void cut();

  // How often side `from` was asked for its backlog, as a kernel would be.
  uint64_t questions(int from) const { return questions_[static_cast<size_t>(from)]; }
  size_t under_way(int to) const { return towards_[static_cast<size_t>(to)].size(); }
  // With a network: when the kernel of side `to` had the latest frame that could come until `now`, though
  // the side may not have read it; a frame comes at `not_before` or later.
  Nanoseconds received_at(int to, Nanoseconds not_before, Nanoseconds now) const;
  // `deliver(to)` would do something.
  bool has_news(int to) const;
  // That side has not ended.
  bool is_open(int side) const { return sides_[static_cast<size_t>(side)] != nullptr; }

  // That side gave the connection up: the other one hears of it whatever is under way.
  bool is_given_up(int side) const { return reset_[static_cast<size_t>(side)]; }

  // With a network: when the next thing happens to side `to`, kNever when nothing will; and that
  // thing: a header with half its payload, the rest of a frame, or word of the other side's end.
  Nanoseconds next_due(int to) const;
  void deliver_next(int to, Nanoseconds now);
  // Lets side `from` send what it has; to be called after an arrival while it runs.
  void push(int from);
  int id = 0;  // the network's own

 private:
  friend class FakeWire;
  using Frame = FakeFrame;

  FakeLink(size_t capacity_frames, FakeNetwork* network)
      : capacity_frames_(capacity_frames), network_(network) {}
  void send(int from, Frame frame);
  // Side `from` sends no more; `given_up`: and nothing of it has to arrive.
  void end(int from, bool given_up);
  void saw(int to, const wire::FrameHeader& header, FakeMoment moment) {
    if (network_ != nullptr) network_->saw(*this, to, header, moment);
  }
  void see_acknowledged(int to, const wire::FrameHeader& header);
  Status peer_gone() const;
  bool has_room(int from) const { return under_way(1 - from) < capacity_frames_; }
  uint64_t bytes_from(int side) const;

  const size_t capacity_frames_;
  FakeNetwork* const network_;
  std::array<std::deque<Frame>, 2> towards_;
  std::array<FakeWire*, 2> sides_{};
  std::array<std::deque<wire::FrameHeader>, 2> unacknowledged_;  // data that each side has sent
  std::array<uint32_t, 2> acknowledged_{};                       // and how much before that was
  std::array<uint64_t, 2> questions_{};
  std::array<Nanoseconds, 2> read_at_{};  // with a network: when each side last read a frame
  std::array<bool, 2> gone_{};   // this side will send nothing any more
  std::array<bool, 2> reset_{};  // and gave the connection up: nothing more arrives from it
  std::array<Nanoseconds, 2> end_due_{};  // with a network: when this side hears that the other is gone
};

class FakeWire final : public Wire {
 public:
  FakeWire(std::shared_ptr<FakeLink> link, int side, Nanoseconds now);
  ~FakeWire() override;

  Status start(WireEvents& events) override;
  size_t send(std::span<WorkRequest* const> frames) override;
  bool has_output() const override { return false; }
  Use use_of(uint32_t) override { return Use::none; }
  Status detach(uint32_t) override { return Status::ok(); }
  uint64_t backlog_bytes() override {
    ++link_->questions_[static_cast<size_t>(side_)];
    return link_->bytes_from(side_);
  }
  Nanoseconds heard_at() override { return heard_at_; }
  Nanoseconds host_heard_at() override {
    if (link_->network_ == nullptr) return heard_at_;
    return std::max(heard_at_, link_->network_->host_heard(*link_, side_));
  }
  void close(bool in_order) override;

 private:
  friend class FakeLink;
  bool is_receiving() const { return arrival_ != nullptr; }
  void arrive(FakeFrame frame);
  // Puts the next `bytes` of the payload that is arriving into their place.
  void land(size_t bytes);
  void finish();

  const std::shared_ptr<FakeLink> link_;
  const int side_;
  WireEvents* events_ = nullptr;
  FakeFrame arriving_;
  Arrival* arrival_ = nullptr;
  size_t payload_done_ = 0;
  Nanoseconds now_;
  Nanoseconds heard_at_;
};

}  // namespace nezha::transport
