// Shrinker: what ranks say to each other, and what follows from it later, in `run`.
#include <cinttypes>

#include "engine/missing_connections.h"
#include "engine/options.h"
#include "engine/peer_table.h"
#include "engine/shrink.h"

namespace nezha::engine {

using wire::FrameHeader;
using wire::FrameType;

void Shrinker::tell(const Lineage& lineage, PeerLinks& links, Wish wish) const {
  transport::Connection* const connection = links.any_up();
  if (connection == nullptr) return parts_.missing.need(links);
  const Ballot& ballot = lineage.agreement.own();
  FrameHeader header;
  header.type = FrameType::agree;
  header.comm = lineage.root;
  header.stage = static_cast<uint16_t>(wish);
  header.op_seq = wish == Wish::abort ? lineage.aborted : ballot.generation;
  connection->post_control(header, ballot.dead);
  connection->flush();
}

// Also those given up, if they can hear it: they wait in vain.
void Shrinker::tell_all(const Lineage& lineage, Wish wish) const {
  for (const int peer : lineage.members) {
    const auto& links = parts_.peers.all()[static_cast<size_t>(peer)];
    if (links != nullptr) tell(lineage, *links, wish);
  }
}

void Shrinker::on_agree(int peer, const FrameHeader& header, const std::string& dead) {
  Lineage* const lineage = adopt(header.comm);
  const int member = lineage == nullptr ? -1 : lineage->member_of(peer);
  if (member < 0) return;  // it asks again, should we become one
  Agreement& agreement = lineage->agreement;
  if (header.stage == static_cast<uint16_t>(Wish::abort)) {
    note(*lineage);
    if (!agreement.heard_abort({header.op_seq, dead}, member)) return;
    return complete(*lineage, error(Code::aborted, "rank %d aborted shrink() of communicator %" PRIu64,
                                    rank_in_parent(*lineage, member), lineage->parent));
  }
  if (!agreement.heard({header.op_seq, dead}, member)) return;
  note(*lineage);
  if (header.stage != static_cast<uint16_t>(Wish::answer)) return;
  PeerLinks& links = parts_.peers.of(peer);
  if (header.op_seq <= lineage->aborted) return tell(*lineage, links, Wish::abort);
  if (agreement.own().generation > 0) tell(*lineage, links, Wish::none);
}

void Shrinker::lost(int peer) {
  for (const auto& lineage : lineages_) {
    const int member = lineage->member_of(peer);
    if (member < 0) continue;
    lineage->agreement.lost(member);
    note(*lineage);
  }
}

void Shrinker::tell_again(PeerLinks& links) {
  for (const auto& lineage : lineages_) {
    if (lineage->agreement.own().generation == 0 || lineage->member_of(links.peer()) < 0) continue;
    tell(*lineage, links, lineage->call != nullptr ? Wish::answer : Wish::none);
  }
}

void Shrinker::mark_awaited(std::vector<bool>& awaited) const {
  for (const auto& lineage : lineages_) {
    if (lineage->call == nullptr) continue;
    for (const int member : lineage->agreement.missing()) {
      awaited[static_cast<size_t>(lineage->members[static_cast<size_t>(member)])] = true;
    }
  }
}

void Shrinker::note(Lineage& lineage) {
  lineage.due = true;
  due_ = true;
}

}  // namespace nezha::engine
