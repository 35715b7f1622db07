// Reconciler: what becomes of the transfers that a lost or silent connection left unacknowledged:
// asks the peer, over another connection, which of them landed, and sends the others again; and
// answers such a peer.
//
// Contract: owned by the Supervisor, progress lock held. An answer is not waited for long: without
// one all of the transfers are sent again, under the same identities.
#pragma once

#include "base/clock.h"
#include "engine/endpoint/peer_links.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class Transfers;
struct EngineOptions;

class Reconciler {
 public:
  Reconciler(const EngineOptions& options, const Clock& clock, Transfers& transfers)
      : options_(options), clock_(clock), transfers_(transfers) {}

  // Takes the requests that the link's connection left, the first of which has number `first` on
  // that connection; the peer is asked at once.
  void hold(PeerLinks& links, Link& link, transport::WorkQueue& requests, uint32_t first);
  // There is a connection again over which the peer can be asked.
  void ask_all(PeerLinks& links);
  // The peer answered.
  void on_landed(PeerLinks& links, const wire::LandedHeader& header);
  // The peer asks what landed here. Returns the link that it asks about, if it means that link's
  // present connection; otherwise null.
  Link* answer(PeerLinks& links, const wire::ReconcileHeader& header);
  // Sends again what was not answered for in time. To be called with all peers when `due` has come.
  void run(PeerLinks& links, Nanoseconds now);
  Nanoseconds due() const { return due_; }
  void begin_run() { due_ = kNever; }
  // How many transfers were found landed.
  uint64_t reconciled() const { return reconciled_; }

 private:
  void ask(PeerLinks& links, Link& link);
  void repost(PeerLinks& links, Link& link);
  // `epoch` is not looked at.
  Link* named(PeerLinks& links, const wire::ConnectionName& name) const;
  wire::ConnectionName name_of(const Link& link, uint32_t epoch) const;

  const EngineOptions& options_;
  const Clock& clock_;
  Transfers& transfers_;
  Nanoseconds due_ = kNever;
  uint64_t reconciled_ = 0;
};

}  // namespace nezha::engine
