// OfiRejoin: connections of `ofi` rails made again while the loop runs.
//
// Contract: see transport/transport.h and ofi_meeting.h. Events come from `run` alone.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "progress/loop.h"
#include "transport/link_watch.h"
#include "transport/ofi/host_ping.h"
#include "transport/ofi/ofi_meeting.h"
#include "transport/transport.h"

namespace nezha::transport {

class OfiRejoin final : public Rejoin, private progress::Polled,
                        private progress::Pollable {
 public:
  // `devices`: whose carrier is watched, by rail; "": of this one nobody knows.
  static Result<std::unique_ptr<OfiRejoin>> create(const MeshRequest& request, progress::Loop& loop,
                                                   ConnectionEvents& events, RejoinEvents& joins,
                                                   std::unique_ptr<OfiMeeting> meeting,
                                                   const std::vector<std::string>& devices);
  ~OfiRejoin() override { stop(); }

  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override;
  void probe(const Path& path, Nanoseconds patience) override;
  void run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override;
  void stop() override;

 private:
  // How long after a look the doors are left alone, so that strangers, and the rail's own data, which
  // knocks at the doors of `net`, cost no more than that many looks; and how often they are looked at
  // where knocks wake nobody.
  static constexpr Nanoseconds kLookAtDoors = 10 * kMillisecond;

  OfiRejoin(const MeshRequest& request, progress::Loop& loop, ConnectionEvents& events,
            RejoinEvents& joins, std::unique_ptr<OfiMeeting> meeting)
      : request_(request), loop_(loop), events_(events), joins_(joins),
        meeting_(std::move(meeting)) {}

  bool poll() override;
  Sleep may_sleep() override;
  void on_ready(uint32_t) override { look_at_ = std::min(look_at_, leave_until_); }
  void raise(OfiJoined& joined);
  Probed outcome_of(const OfiRefused& probe);

  const MeshRequest request_;
  progress::Loop& loop_;
  ConnectionEvents& events_;
  RejoinEvents& joins_;
  std::unique_ptr<OfiMeeting> meeting_;  // null: stopped
  std::vector<int> knocks_;  // descriptors; empty: nobody would be woken
  Nanoseconds look_at_ = 0;
  Nanoseconds leave_until_ = 0;
  struct Ping {
    Path path;
    HostPing host;
  };
  std::vector<Ping> pings_;  // one of each probe under way
  std::unique_ptr<LinkWatch> links_;
  std::deque<std::pair<int, bool>> carriers_;  // told, and not yet passed on
};

}  // namespace nezha::transport
