#include "transport/ofi/ofi_rejoin.h"

#include <algorithm>

#include "base/log.h"
#include "transport/ofi/fabric_sockets.h"
#include "transport/ofi/ofi_transport.h"

namespace nezha::transport {

Result<std::unique_ptr<OfiRejoin>> OfiRejoin::create(const MeshRequest& request,
                                                     progress::Loop& loop, ConnectionEvents& events,
                                                     RejoinEvents& joins,
                                                     std::unique_ptr<OfiMeeting> meeting,
                                                     const std::vector<std::string>& devices) {
  std::unique_ptr<OfiRejoin> made(
      new OfiRejoin(request, loop, events, joins, std::move(meeting)));
  loop.add_polled(made.get());
  for (const int fd : made->meeting_->wait_fds()) {
    NEZHA_RETURN_IF_ERROR(loop.add(fd, EPOLLIN | EPOLLET, made.get()));
    made->knocks_.push_back(fd);
  }
  OfiRejoin* const self = made.get();
  made->links_ = LinkWatch::open(loop, devices, [self](int rail, bool up) {
    self->carriers_.emplace_back(rail, up);
  });
  return made;
}

void OfiRejoin::stop() {
  if (meeting_ == nullptr) return;
  loop_.remove_polled(this);
  for (const int fd : knocks_) loop_.remove(fd, this);
  links_.reset();
  carriers_.clear();
  pings_.clear();
  meeting_.reset();
}

void OfiRejoin::dial(const Path& path, uint32_t epoch, Nanoseconds patience) {
  if (meeting_) meeting_->dial(path, epoch, loop_.clock().now(), patience, false);
}

void OfiRejoin::probe(const Path& path, Nanoseconds patience) {
  if (meeting_ == nullptr) return;
  const PeerAddress& peer = request_.ranks[static_cast<size_t>(path.peer)];
  const PeerAddress& me = request_.ranks[static_cast<size_t>(request_.rank)];
  const RailAddress& mine = me.rails[static_cast<size_t>(path.rail)];
  // By its address: the name of an adapter's rail is no name of a network device.
  const SocketPlace from{mine.address, me.host == peer.host ? "" : device_with(mine.address)};
  pings_.push_back({path, HostPing(from, peer.rails[static_cast<size_t>(path.peer_rail)])});
  meeting_->dial(path, 0, loop_.clock().now(), patience, true);
}

// A process that stands still does not answer; its host does.
Probed OfiRejoin::outcome_of(const OfiRefused& probe) {
  const auto ping = std::find_if(pings_.begin(), pings_.end(), [&](const Ping& each) {
    return each.path.peer == probe.path.peer && each.path.rail == probe.path.rail &&
           each.path.lane == probe.path.lane;
  });
  const Probed host = ping == pings_.end() ? Probed::nothing : ping->host.answer();
  if (ping != pings_.end()) pings_.erase(ping);
  if (probe.answered) return Probed::process;
  if (probe.outcome == DialOutcome::refused) return Probed::refusal;
  return host;
}

// Doors are looked at after a knock, attempts in every turn.
bool OfiRejoin::poll() {
  const Nanoseconds now = loop_.clock().now();
  if (!meeting_->is_busy() && now < look_at_) return false;
  const bool any = meeting_->turn(now);
  const bool quiet = !any && !meeting_->is_busy();
  leave_until_ = now + kLookAtDoors;
  look_at_ = quiet && !knocks_.empty() ? kNever : leave_until_;
  return any;
}

progress::Polled::Sleep OfiRejoin::may_sleep() {
  if (meeting_->is_busy()) return Sleep::briefly;
  if (look_at_ == kNever && !meeting_->may_wait()) look_at_ = leave_until_;
  return Sleep::until_woken;  // next_wakeup() sees to the rest
}

void OfiRejoin::run(Nanoseconds) {
  // What an event starts and fails at once waits for the next turn.
  for (size_t left = meeting_ ? meeting_->refused.size() : 0; left > 0 && meeting_; --left) {
    const OfiRefused refused = std::move(meeting_->refused.front());
    meeting_->refused.pop_front();
    if (refused.is_probe) {
      joins_.on_probed(refused.path, outcome_of(refused));
    } else {
      joins_.on_dial_failed(refused.path, refused.outcome, refused.reason);
    }
  }
  for (size_t left = meeting_ ? meeting_->joined.size() : 0; left > 0 && meeting_; --left) {
    OfiJoined joined = std::move(meeting_->joined.front());
    meeting_->joined.pop_front();
    raise(joined);
  }
  while (!carriers_.empty()) {
    const auto [rail, up] = carriers_.front();
    carriers_.pop_front();
    joins_.on_carrier(rail, up);
  }
}

void OfiRejoin::raise(OfiJoined& joined) {
  auto connection = make_ofi_connection(request_, loop_, events_, joined);
  close_fabric_sockets_on_exec();
  if (connection) return joins_.on_joined(std::move(*connection));
  const std::string why = connection.status().message();
  if (joined.dialled) return joins_.on_dial_failed(joined.path, DialOutcome::failed, why);
  NEZHA_LOG(warn, "ofi", "rail %d: a connection of rank %d was made again and cannot be used: %s",
            joined.path.rail, joined.path.peer, why.c_str());
}

Nanoseconds OfiRejoin::next_wakeup() const {
  if (meeting_ == nullptr) return kNever;
  if (!meeting_->joined.empty() || !meeting_->refused.empty() || !carriers_.empty()) return 0;
  return std::min(meeting_->next_deadline(), std::max<Nanoseconds>(look_at_, 1));
}

}  // namespace nezha::transport
