// FakeLink and FakeEndpoint: a connection without a network, whose frames a test moves by hand.
//
// Contract: see transport/connection.h; what TcpEndpoint does with a socket, FakeEndpoint does with
// two queues. Nothing arrives, breaks or is noticed unless the test says so, so a test can stop the
// world between any two frames, or in the middle of one. With a FakeNetwork below it each frame has
// a time at which it arrives instead.
//   Owner    the test; the link lives as long as somebody holds it.
//   Threads  one.
//   Errors   as with TCP: a frame that breaks the protocol takes the connection down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "transport/connection.h"

namespace nezha::transport {

class FakeEndpoint;
class FakeLink;

struct FakeFrame {
  std::array<std::byte, wire::kHeaderBytes> header;
  std::vector<std::byte> payload;
  Nanoseconds header_due = 0;  // with a network: when the header and when the last byte arrives
  Nanoseconds end_due = 0;
};

enum class FakeMoment : uint8_t { sent, half_landed, landed, released };

// What decides when frames arrive, and sees them pass. Side `to` is the one they go to. No call may
// change a link or an connection, except that `tamper` may change the frames it is given.
class FakeNetwork {
 public:
  virtual ~FakeNetwork() = default;
  // Sets the times of a frame that leaves now; they never go back from one frame to the next.
  virtual void admit(const FakeLink& link, int to, FakeFrame& frame) = 0;
  // The other side gave the connection up: how many of `under_way` frames arrive all the same, and
  // when `to` hears of it.
  virtual size_t survivors(const FakeLink& link, int to, size_t under_way) = 0;
  virtual Nanoseconds end_heard(const FakeLink& link, int to) = 0;
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

  std::unique_ptr<FakeEndpoint> connect(int side, ConnectionEvents& events, Nanoseconds now = 0);

  // Moves up to `frames` frames into side `to`, and tells it when the other side is gone; returns
  // how many arrived.
  size_t deliver(int to, size_t frames = SIZE_MAX);
  // The header and the first half of the payload of the next frame; `deliver` brings the rest.
  void deliver_half(int to);
  // Puts a frame on its way to `to` that the other side never sent.
  void inject(int to, const wire::FrameHeader& header);
  // What is under way is lost, and both sides notice.
  void cut();

  size_t under_way(int to) const { return towards_[static_cast<size_t>(to)].size(); }
  // `deliver(to)` would do something.
  bool has_news(int to) const;

  // With a network: when the next thing happens to side `to`, kNever when nothing will; and that
  // thing: a header with half its payload, the rest of a frame, or word of the other side's end.
  Nanoseconds next_due(int to) const;
  void deliver_next(int to, Nanoseconds now);
  // Lets the other side of `to` send what it has; to be called after an arrival while it runs.
  void push(int from);
  // The connection of a side; null when there is none any more.
  FakeEndpoint* side(int index) const { return sides_[static_cast<size_t>(index)]; }
  int id = 0;  // the network's own

 private:
  friend class FakeEndpoint;
  using Frame = FakeFrame;

  FakeLink(size_t capacity_frames, FakeNetwork* network)
      : capacity_frames_(capacity_frames), network_(network) {}
  void send(int from, Frame frame);
  // Side `from` sends no more; `given_up`: and nothing of it has to arrive.
  void end(int from, bool given_up);
  void saw(int to, const wire::FrameHeader& header, FakeMoment moment) {
    if (network_ != nullptr) network_->saw(*this, to, header, moment);
  }
  bool has_room(int from) const { return under_way(1 - from) < capacity_frames_; }
  uint64_t bytes_from(int side) const;

  const size_t capacity_frames_;
  FakeNetwork* const network_;
  std::array<std::deque<Frame>, 2> towards_;
  std::array<FakeEndpoint*, 2> sides_{};
  std::array<bool, 2> gone_{};   // this side will send nothing any more
  std::array<bool, 2> reset_{};  // and gave the connection up: nothing more arrives from it
  std::array<Nanoseconds, 2> end_due_{};  // with a network: when this side hears that the other is gone
};

class FakeEndpoint final : public Connection {
 public:
  ~FakeEndpoint() override;

  bool post(WorkRequest& request) override;
  void acknowledge(uint32_t comm) override;
  void post_control(const wire::FrameHeader& header, const std::string& text) override;
  void flush() override;
  uint64_t backlog_bytes() override { return queued_bytes() + link_->bytes_from(side_); }
  uint64_t queued_bytes() const override { return queue_.bytes(); }
  bool has_room() const override { return up_ && queued_bytes() < kQueuedBytesMax; }
  bool has_output() const override {
    return up_ && (!queue_.empty() || !control_.empty() || !ack_comms_.empty());
  }
  uint32_t in_flight_frames() const override { return posted_ - released_ - ghosts_; }
  uint32_t unacknowledged_frames() const override { return landed_ - told_; }
  uint64_t unacknowledged_bytes() const override { return landed_bytes_; }
  int landings() const override { return receiving_ ? 1 : 0; }
  const Landing& landing(int) const override { return landing_; }
  void abandon_landing(int) override { landing_.destination = nullptr, landing_.owner = nullptr; }
  void disown(const void* owner, WorkQueue& unsent) override;
  void recall(WorkQueue& unacknowledged) override;
  uint32_t first_unacknowledged() const override { return released_ + ghosts_; }
  uint32_t landed_frames() const override { return landed_; }
  Nanoseconds heard_at() override { return heard_at_; }
  // The test's clock moved: what arrives from here on was heard then.
  void set_now(Nanoseconds now) { now_ = now; }
  void quiesce(const Status& why) override;
  bool is_up() const override { return up_; }
  const ConnectionCounters& counters() const override { return counters_; }
  std::string describe() const override { return "fake rail " + std::to_string(rail); }

 private:
  friend class FakeLink;
  static constexpr uint64_t kQueuedBytesMax = 64 * 1024;

  FakeEndpoint(std::shared_ptr<FakeLink> link, int side, ConnectionEvents& events, Nanoseconds now)
      : link_(std::move(link)), side_(side), events_(events), now_(now), heard_at_(now) {}

  void seal(wire::FrameHeader& header);
  void arrive(FakeLink::Frame frame);
  // Puts the next `bytes` of the payload that is arriving into their place.
  void land(size_t bytes);
  void finish_frame();
  void handle_ack(const wire::FrameHeader& header);

  const std::shared_ptr<FakeLink> link_;
  const int side_;
  ConnectionEvents& events_;
  bool up_ = true;
  bool goodbye_received_ = false;
  ConnectionCounters counters_;

  WorkQueue queue_;      // posted, not on its way
  WorkQueue in_flight_;  // on its way or arrived, not acknowledged
  uint32_t ghosts_ = 0;  // on their way before in_flight_, and taken back
  uint32_t posted_ = 0;
  uint32_t released_ = 0;
  std::vector<FakeLink::Frame> control_;
  std::vector<uint32_t> ack_comms_;

  bool receiving_ = false;
  FakeLink::Frame arriving_;
  wire::FrameHeader frame_;
  Landing landing_;
  size_t payload_done_ = 0;
  uint32_t landed_ = 0;
  uint32_t told_ = 0;
  uint64_t landed_bytes_ = 0;
  Nanoseconds now_;
  Nanoseconds heard_at_;
};

}  // namespace nezha::transport
