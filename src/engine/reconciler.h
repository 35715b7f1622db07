// Reconciler: what a lost or silent connection left unacknowledged: asks the peer, over another
// connection, which of it landed, and sends the rest again; and answers the peer that asks.
//
// Contract: owned by the Supervisor, progress lock held. Nobody waits long for an answer: without one all
// of it is sent again, under the same identities.
#pragma once

#include "base/clock.h"
#include "engine/peer_links.h"

namespace nezha::engine {

class Transfers;
struct EngineOptions;

class Reconciler {
 public:
  Reconciler(const EngineOptions& options, const Clock& clock, Transfers& transfers)
      : options_(options), clock_(clock), transfers_(transfers) {}

  // Takes what the link's connection left, the first of it being number `first` of that connection; the
  // peer is asked at once.
  void take(PeerLinks& links, Link& link, transport::WorkQueue& requests, uint32_t first);
  // There is a connection again over which the peer can be asked.
  void ask_all(PeerLinks& links);
  // The peer's answer.
  void on_landed(PeerLinks& links, const wire::FrameHeader& header);
  // The peer asks what landed here; says about which connection, if that is the one we have.
  Link* answer(PeerLinks& links, const wire::FrameHeader& header);
  // Sends again what was not answered in time. To be called with all peers when `due` has come.
  void run(PeerLinks& links, Nanoseconds now);
  Nanoseconds due() const { return due_; }
  void begin_run() { due_ = kNever; }
  // Transfers that were found landed.
  uint64_t reconciled() const { return reconciled_; }

 private:
  static constexpr Nanoseconds kPatience = 5 * kMillisecond;

  void ask(PeerLinks& links, Link& link);
  void repost(PeerLinks& links, Link& link);
  Link* named(PeerLinks& links, const wire::FrameHeader& header) const;
  wire::FrameHeader name_of(const Link& link, wire::FrameType type) const;

  const EngineOptions& options_;
  const Clock& clock_;
  Transfers& transfers_;
  Nanoseconds due_ = kNever;
  uint64_t reconciled_ = 0;
};

}  // namespace nezha::engine
