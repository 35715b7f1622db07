// Shrinker: what ranks say to each other, and what follows from it later, in `run`.
#include <cinttypes>
#include <utility>

#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/membership/shrink.h"

namespace nezha::engine {

using wire::AgreeHeader;

void Shrinker::send_statement(const Lineage& lineage, PeerLinks& links, Wish wish) const {
  transport::Connection* const connection = links.any_up();
  if (connection == nullptr) return parts_.agenda.connect(links.peer());
  const Statement& said = lineage.agreement.own();
  AgreeHeader header;
  header.comm = lineage.root;
  header.generation = wish == Wish::abort ? lineage.aborted : said.ballot.generation;
  header.stage = static_cast<uint32_t>(said.stage);
  header.wish = wish;
  const std::pair<Part, const MemberSet&> parts[] = {{Part::exited, said.exited},
                                                     {Part::base, said.base},
                                                     {Part::row, said.row},
                                                     {Part::unheard, said.unheard},
                                                     {Part::dead, said.ballot.dead}};
  for (const auto& [part, set] : parts) {
    if (part != Part::dead && set.is_empty()) continue;
    header.part = part;
    connection->post_control(header.to_frame(), set.bytes());
  }
  connection->flush();
}

// Tells members that were given up, too, if they can be reached: they wait in vain.
void Shrinker::tell_all(const Lineage& lineage, Wish wish) const {
  for (const int peer : lineage.members) {
    const auto& links = parts_.peers.all()[static_cast<size_t>(peer)];
    if (links != nullptr) send_statement(lineage, *links, wish);
  }
}

void Shrinker::on_agree(int peer, const AgreeHeader& header, const std::string& set) {
  Lineage* const lineage = adopt(header.comm);
  const int member = lineage == nullptr ? -1 : lineage->member_of(peer);
  if (member < 0) return;  // the peer asks again, in case this rank gets such a group
  const std::optional<Statement> said = take_part(*lineage, member, header, set);
  if (!said) return;
  Agreement& agreement = lineage->agreement;
  if (header.wish == Wish::abort) {
    set_due(*lineage);
    if (!agreement.heard_abort(*said, member)) return;
    return complete(*lineage, error(Code::aborted, "rank %d aborted shrink() of communicator %" PRIu64,
                                    rank_in_parent(*lineage, member), lineage->parent));
  }
  if (!agreement.on_statement(*said, member)) return;
  set_due(*lineage);
  if (header.wish != Wish::answer) return;
  PeerLinks& links = parts_.peers.of(peer);
  if (header.generation <= lineage->aborted) return send_statement(*lineage, links, Wish::abort);
  if (agreement.own().ballot.generation > 0) send_statement(*lineage, links, Wish::none);
}

// Parts that came on a connection that is lost now are still true: a member's statements only grow.
std::optional<Statement> Shrinker::take_part(Lineage& lineage, int member, const AgreeHeader& header,
                                             const std::string& set) {
  const int size = lineage.agreement.size();
  MemberSet part;
  if (!part.read(set, size)) return std::nullopt;
  Statement& said = lineage.parts.try_emplace(member, size).first->second;
  switch (header.part) {
    case Part::exited: said.exited = std::move(part); return std::nullopt;
    case Part::base: said.base = std::move(part); return std::nullopt;
    case Part::row: said.row = std::move(part); return std::nullopt;
    case Part::unheard: said.unheard = std::move(part); return std::nullopt;
    case Part::dead: break;
    default: return std::nullopt;
  }
  Statement whole = std::move(said);
  lineage.parts.erase(member);
  const bool has_stage = header.stage >= static_cast<uint32_t>(Stage::wish) &&
                         header.stage <= static_cast<uint32_t>(Stage::vote);
  if (!has_stage) return std::nullopt;
  whole.stage = static_cast<Stage>(header.stage);
  whole.ballot = {header.generation, std::move(part)};
  return whole;
}

void Shrinker::lost(int peer, bool exited) {
  for (const auto& lineage : lineages_) {
    const int member = lineage->member_of(peer);
    if (member < 0) continue;
    lineage->agreement.lost(member, exited);
    set_due(*lineage);
  }
}

void Shrinker::tell_again(PeerLinks& links) {
  for (const auto& lineage : lineages_) {
    if (lineage->agreement.own().ballot.generation == 0 || lineage->member_of(links.peer()) < 0) continue;
    send_statement(*lineage, links, lineage->call != nullptr ? Wish::answer : Wish::none);
  }
}

void Shrinker::mark_awaited(RankSet& awaited) const {
  for (const auto& lineage : lineages_) {
    if (lineage->call == nullptr) continue;
    for (const int member : lineage->agreement.missing()) {
      awaited.add(lineage->members[static_cast<size_t>(member)]);
    }
  }
}

void Shrinker::set_due(Lineage& lineage) {
  lineage.due = true;
  parts_.agenda.agree();
}

}  // namespace nezha::engine
