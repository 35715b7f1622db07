"""Bugs that the simulation has to find: one line of the library each, made wrong.

`original` must occur exactly once in its file; `mutated` takes its place when the bug is active (see
generate.py). Statements end with ; or }, everything else is an expression. `pitfall` says what kind of
mistake it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List


@dataclass(frozen=True)
class Bug:
    """One mistake: where, what, and what it stands for."""

    name: str
    file: str
    original: str
    mutated: str
    pitfall: str


EXECUTION = "engine/operation/execution.cc"
EVENTS = "engine/arrivals.cc"
ENGINE = "engine/engine.cc"
KEEPER = "engine/group_keeper.cc"
GROUP = "engine/group/group.h"
OPERATIONS = "engine/operation/operations.cc"
TRANSFERS = "engine/flow/transfers.cc"
CREDIT = "engine/flow/credit_accounts.cc"
EARLY = "engine/flow/early_frames.cc"
FAILURES = "engine/group/failures.cc"
OUTBOX = "engine/messages/outbox.cc"
MAIL = "engine/messages/mailbox.cc"
MAIL_MATCHING = "engine/messages/mailbox_matching.cc"
MAIL_FRAMES = "engine/messages/mailbox_frames.cc"
LOST = "engine/membership/supervisor_links.cc"
ASKING = "engine/flow/reconciler.cc"
JUDGE = "engine/membership/supervisor.cc"
HEALTH = "rails/link_health.cc"
REDIAL = "rails/redial.cc"
FRAME = "wire/frame.cc"
HMAC = "base/hmac.cc"
HANDSHAKE = "wire/handshake.cc"
JOB = "aggregation/server/job.h"
BUDGET = "aggregation/server/budget.h"
OFI = "fabric/ofi_wire.cc"
OFI_MESSAGE = "fabric/ofi_message.cc"
CONNECTION_RECEIVE = "transport/connection_receive.cc"
RECORDS = "context/records.cc"
BOOTSTRAP = "context/bootstrap.cc"
BOOTSTRAP_WELCOME = "context/bootstrap_welcome.cc"
STORE_SERVER = "rendezvous/tcp_server.cc"
KEY_FILE = "wire/key_file.cc"
MEMORY = "memory/operation.cc"
PIECES = "memory/pieces.cc"
PHASE = "memory/phase.cc"
AREA = "memory/area.h"
AREAS = "memory/area_table.cc"
HOST_MEMORY = "memory/host_memory.cc"
SHARDS = "schedule/hierarchy/all_reduce_shards.cc"
LEADERS = "schedule/hierarchy/phases.cc"
BLOCK_RUNS = "schedule/algorithms/block_runs.h"
COUNTERPARTS = "schedule/hierarchy/all_to_all_counterparts.cc"
ALL_TO_ALL_LEADERS = "schedule/hierarchy/all_to_all_leaders.cc"
ALL_TO_ALL_COLUMNS = "schedule/hierarchy/all_to_all_columns.cc"
COLUMNS = "schedule/hierarchy/columns.cc"
ROOTED = "schedule/hierarchy/rooted.cc"

FENCE = """fence();
  return nothrow_error(Code::aborted, "connection %s was closed because the peer could still "
                       "write to memory that is used again", name_.c_str());"""

TAKE_OVER = """if (landing.generation > generation) return false;
      link.connection->abandon_landing(i);"""

LANDING_LOST = """StepSlot& slot = cursor(landing.chunk).steps[landing.step];
  parts_.pool.give(slot.scratch);
  slot.begin_again();"""

DIAL_FAILED = """under_way_ = false;
  if (answered) patience_ = std::min(2 * patience_, kDialPatienceMax);"""

RAIL_CHECK = "rail < expected.rail_counts[rank]"

LAST_RAIL = """if (manager_ == nullptr) {
    parts_.losses.lost(links.peer(), error(Code::peer_lost, "its last rail was lost: %s",
                                           why.message().c_str()).with_rail(peer.last_rail),
                         true);
    return;
  }"""

BUGS: List[Bug] = [
    # ------------------------------------------------------------------ receiving and reducing
    Bug("duplicate_reduced_again", EXECUTION, "slot.state != StepState::waiting",
        "slot.state == StepState::held", "double reduction of a duplicate"),
    Bug("early_duplicate_reduced_again", EXECUTION,
        "at.steps[static_cast<size_t>(index)].state != StepState::waiting", "false",
        "double reduction of a duplicate"),
    Bug("late_frame_in_reused_cursor", EXECUTION,
        "header.chunk < low_chunk_ || !at.open || at.chunk != header.chunk", "!at.open",
        "late frame of an earlier chunk accepted"),
    Bug("reduced_before_its_round", EXECUTION,
        "if (step_index >= at.program->round_ends[at.round]) return;",
        ";", "order of arrival decides the sum"),
    Bug("half_a_step_counts", EXECUTION, LANDING_LOST,
        LANDING_LOST.replace("slot.begin_again();", "slot.state = StepState::done;"),
        "half a chunk is taken for landed"),
    Bug("older_copy_takes_over", TRANSFERS, TAKE_OVER, "link.connection->abandon_landing(i);",
        "generation ignored: both copies abandoned or the wrong one acknowledged"),
    Bug("both_copies_land", TRANSFERS, TAKE_OVER,
        "if (landing.generation > generation) return false;", "half-reduced chunk: two writers"),
    Bug("generation_stands_still", TRANSFERS,
        "request->header.flags = wire::next_generation(request->header.flags);", ";",
        "generation ignored when sent again"),
    Bug("length_of_a_chunk_unchecked", EXECUTION,
        "operands_.bytes_of(at, at.program->steps[static_cast<size_t>(index)]) != header.length", "false",
        "a peer's length chooses how much is written"),
    Bug("chunk_ahead_is_dropped", "engine/operation/execution.h", "chunk < next_chunk_",
        "chunk <= next_chunk_", "fault exactly at the border of chunks"),
    Bug("one_chunk_too_many_open", EXECUTION, "next_chunk_ < low_chunk_ + window_",
        "next_chunk_ <= low_chunk_ + window_", "last chunk of a window"),
    # ----------------------------------------------------------------------- sending, releasing
    Bug("done_at_send", EXECUTION, "!copy || (scaled && !is_short)", "false",
        "source freed at the end of sending"),
    Bug("source_overwritten", EXECUTION, "step.copy_source || scaled || is_short", "scaled || is_short",
        "source overwritten before its acknowledgement"),
    Bug("workspace_not_kept", EXECUTION,
        "if (!copy && !step.from_input && step.in_workspace) request->shared = "
        "at.workspace->share();", ";", "source freed before its acknowledgement"),
    Bug("done_before_the_last_ack", EXECUTION, "if (unreleased_ > 0) return false;",
        "if (unreleased_ > 1) return false;", "last chunk of the last operation"),
    Bug("lost_transfers_forgotten", TRANSFERS, "links.requeue(again);", "drop(again);",
        "what was under way is not sent again"),
    Bug("late_acks_never", CREDIT, "acks_due_ == kNever || wanted", "false",
        "nobody acknowledges the last frames"),
    # --------------------------------------------------------------------------------- credits
    Bug("credit_not_counted", CREDIT, "member.consumed += cost;", ";", "credits lost"),
    Bug("credit_lost_with_the_rail", FAILURES,
        "connection->acknowledge(group->comm);", ";",
        "credits lost with the connection that carried them"),
    Bug("credit_ignored", GROUP, "outstanding == 0 || outstanding + cost <= credit_bytes", "true",
        "private memory without bounds"),
    Bug("blocked_not_accounted", CREDIT, "member.sent += frame_cost(request->header.length);", ";",
        "credits counted wrongly"),
    Bug("credit_goes_back", CREDIT, "credit > member->credited && credit <= member->sent",
        "credit <= member->sent", "an older credit, overtaken on another rail, is believed"),
    # ------------------------------------------------------------------------------ operations
    Bug("next_operation_dropped", OPERATIONS, "header.op_seq >= group.next_op_seq",
        "header.op_seq > group.next_op_seq", "fault exactly at the border of operations"),
    Bug("finished_operation_kept", OPERATIONS,
        "++group.counters.duplicates;  // an operation that is finished here\n  return {};",
        "return parts_.early.place(group, connection.peer, header);",
        "late frame of an old operation accepted"),
    Bug("finished_operation_kept", OPERATIONS,
        "if (op_seq < group.next_op_seq) parts_.early.drop(group, op_seq, chunk);", ";",
        "late frame of an old operation accepted"),
    Bug("early_frame_leaks", EARLY,
        "if (Group* group = groups_.find(frame.header.comm)) free(*group, frame);", ";",
        "memory of a half-landed frame lost"),
    Bug("late_copy_kept", OPERATIONS,
        "if (op_seq < group.next_op_seq) parts_.early.drop(group, op_seq, chunk);", ";",
        "memory of a copy that lands when its operation is over"),
    Bug("deadline_never", ENGINE,
        "if (now >= parts_.failures.next_deadline()) parts_.failures.check_deadlines(now);", ";",
        "a wait without an end"),
    # -------------------------------------------------------------------------------- messages
    Bug("offer_taken_twice", MAIL_FRAMES,
        "if (header.number() < peer.next_offer) return duplicate(group_);", ";",
        "duplicate of a message"),
    Bug("chunk_counted_twice", MAIL_FRAMES, "if (chunk == ChunkState::landed) return duplicate(group_);",
        ";", "duplicate of a part of a message"),
    Bug("accepted_twice", OUTBOX, "if (send.accepted) return duplicate(group_);", ";",
        "duplicate of an answer"),
    Bug("message_matched_before_it_landed", MAIL_MATCHING,
        "if (messages_[index].state == MessageState::landing) return;", ";",
        "acknowledged or used before landing"),
    Bug("message_done_early", OUTBOX, "if (send.unreleased == 0) finish(peer, number);",
        "if (send.unreleased <= 1) finish(peer, number);",
        "source freed before its acknowledgement"),
    Bug("half_a_chunk_counts", MAIL_FRAMES, "message.chunks[landing.chunk] = ChunkState::waiting;",
        "message.chunks[landing.chunk] = ChunkState::landed;", "half a chunk is taken for landed"),
    Bug("message_length_unchecked", MAIL_FRAMES,
        "header.length() != std::min<uint64_t>(message.chunk_bytes, bytes_of(message.op) - offset)",
        "false", "a peer's length chooses how much is written"),
    Bug("inline_length_unchecked", MAIL_FRAMES, "bytes_of(header.op()) == header.length()", "true",
        "a peer's length chooses how much is written"),
    # ------------------------------------------------------------------------- asking what landed
    Bug("unresolved_without_end", ASKING, "now >= link.unresolved.until", "false",
        "second failure while sending again"),
    Bug("one_too_many_released", ASKING, "landed > 0 && !link->unresolved.requests.empty()",
        "landed >= 0 && !link->unresolved.requests.empty()", "released before landing"),
    Bug("count_from_nowhere", ASKING, "link.unresolved.first = first;", "link.unresolved.first = 0;",
        "counts of frames that do not belong together"),
    Bug("answer_about_another_epoch", ASKING, "header.connection.epoch != link->unresolved.epoch",
        "false", "late frame of an old epoch believed"),
    Bug("landed_of_another_epoch", ASKING,
        "present ? link->connection->landed_frames() : link->past_landed",
        "link->connection->landed_frames()", "epoch not checked"),
    Bug("nobody_asks_again", LOST, "state(links).cut_off_at = kNever;", ";",
        "a peer that is back is still taken for lost"),
    # --------------------------------------------------------------------- heartbeats, suspicion
    Bug("no_heartbeats", JUDGE, "if (now - link.beat_at < every && !link.beat_now) continue;",
        "continue;",
        "heartbeat not sent"),
    Bug("suspect_for_ever", HEALTH, "deaf_ && heard > deaf_since_", "false", "suspect never cleared"),
    Bug("never_suspect", HEALTH, "freshest - since >= (expected ? patience_ : rules_.idle_patience)",
        "false", "silent black hole"),
    Bug("one_way_hole_unseen", HEALTH, "unheard_ = unheard;", "unheard_ = false;", "one-way hole"),
    Bug("stopped_peer_punished", JUDGE,
        "link.health.judge(now, link.connection->heard_at(), freshest, expected)",
        "link.health.judge(now, link.connection->heard_at(), now, expected)",
        "a stopped peer's rails are taken for dead"),
    Bug("first_word_accuses_the_rest", JUDGE, "peer.voice_since = freshest;", ";",
        "a peer that stood still has its rails punished when it speaks again"),
    Bug("own_stall_punishes", JUDGE,
        "if (last_tick_ != 0 && now - next_look() > kOwnStall) excuse(now, now - next_look());", ";",
        "own stall punishes everyone"),
    Bug("silent_host_never_gone", JUDGE,
        "peer.unanswered > 0 && now - std::max(since, peer.answered_at) >= parts_.options.outage",
        "false", "a host that vanished is waited for"),
    Bug("silent_host_gone_too_early", JUDGE,
        "peer.unanswered > 0 && now - std::max(since, peer.answered_at) >= parts_.options.outage",
        "peer.unanswered > 0 && now - std::max(since, peer.answered_at) >= parts_.options.outage / 2",
        "a network that is silent for a while costs ranks"),
    Bug("stopped_for_ever", JUDGE,
        "answers && now - std::max(since, peer.answers_since) >= parts_.options.peer_deadline",
        "false", "a rank that is stopped for good is waited for"),
    Bug("silent_network_taken_for_a_stopped_rank", JUDGE,
        "peer.answers_since = now - kSilentBusy;",
        "peer.answers_since = 0;", "an outage counts towards the peer's deadline"),
    Bug("deadline_of_a_stopped_rank_from_the_first_answer", JUDGE,
        "peer.answers_since = now - kSilentBusy;",
        "peer.answers_since = now;",
        "a node that is stopped is lost only after its deadline"),
    Bug("an_answered_round_ends_the_outage", JUDGE, "    peer.unanswered = 0;\n",
        "    peer.unanswered = 0;\n    peer.in_outage = peer.probe.accepted && peer.in_outage;\n",
        "what waits for TCP's next attempt is not dialled anew"),
    Bug("work_that_begins_ends_a_silence", JUDGE, "now - since < kSilentIdle && !awaited",
        "(peer.expected_since == kNever ? now - since < kSilentIdle\n"
        "                                : (since = wanted, now - since < kSilentBusy))",
        "the outage of an idle job is forgotten when it works again"),
    Bug("own_want_blames_the_peer", JUDGE, "!peer.probe.tried", "false",
        "a host that cannot ask loses its peers"),
    Bug("hears_again_in_silence", JUDGE, "link.beat_now = true;", ";",
        "a one-way suspicion is never cleared while there is data"),
    Bug("given_up_without_a_dial", JUDGE,
        "peer.unanswered > 0 && now - std::max(since, peer.answered_at) >= parts_.options.outage",
        "now - std::max(since, peer.answered_at) >= parts_.options.outage",
        "a stopped peer is taken for a dead one"),
    Bug("accepted_probe_ignored", JUDGE, "peer.probe.accepted ? now : 0", "0",
        "a stopped peer is taken for a dead one"),
    Bug("suspect_not_emptied", LOST, "link.connection->recall(taken);", ";",
        "nothing is sent again until the connection breaks"),
    Bug("last_rail_is_the_end", LOST, LAST_RAIL, LAST_RAIL.replace("manager_ == nullptr", "true"),
        "all rails lost for a moment"),
    # -------------------------------------------------------------------------------- rejoining
    Bug("never_dialled", LOST, "link.redial.is_due(now)", "false", "redial never"),
    Bug("dialled_once", REDIAL, DIAL_FAILED, DIAL_FAILED.split("\n")[1], "redial gives up"),
    Bug("same_epoch_again", LOST,
        "std::max(link.dialled_epoch, link.connection->epoch) + 1",
        "std::max(link.dialled_epoch, link.connection->epoch)", "epoch not counted"),
    # ----------------------------------------------------------------- writing into peers' memory
    Bug("memory_used_again_without_a_fence", OFI, FENCE, "return Status::ok();",
        "a write that comes late lands in memory that has another use"),
    Bug("a_key_is_taken_for_a_fence", OFI, FENCE,
        "FabricRail::forget(incoming(arrival.number).region); return Status::ok();",
        "a write that has begun to land goes on without its key"),
    Bug("landed_in_any_order", CONNECTION_RECEIVE, "incoming_count_ > 0 && incoming(0).complete",
        "incoming_count_ > 0", "a payload is told before it was written"),
    # --------------------------------------------------------------- operations in a host's memory
    Bug("slot_written_too_early", MEMORY, "area_->taken(member) + kSlots < next", "false",
        "a barrier is missing: others have not read what was there"),
    Bug("own_slot_written_too_early", MEMORY, "if (posted_ >= taken_ + kSlots) return false;", ";",
        "a rank's own part is overwritten before it has read it"),
    Bug("posted_before_the_data", MEMORY, "put_piece(posted_++);\n  area_->set_posted(next);",
        "area_->set_posted(next);\n  put_piece(posted_++);", "a count is raised too early"),
    Bug("folded_before_the_sum", MEMORY, "fold_piece(folded_++);\n  area_->set_folded(next);",
        "area_->set_folded(next);\n  fold_piece(folded_++);", "a count is raised too early"),
    Bug("taken_before_it_was", MEMORY, "take_piece(taken_++);\n  area_->set_taken(next);",
        "area_->set_taken(next);\n  take_piece(taken_++);", "a count is raised too early"),
    Bug("parts_not_awaited", MEMORY, "if (pieces_.folds()) return area_->folded(member) < next;",
        "if (pieces_.folds()) return false;", "a barrier is missing: the sum is not there yet"),
    Bug("wrong_end_of_own_part", MEMORY, "to + (own.end - all.begin) * element_bytes_",
        "to + own.end * element_bytes_", "a wrong slice, from the second piece on"),
    Bug("block_of_another_rank", MEMORY, "gathers ? 0 : pieces_.slot_offset(rank)",
        "gathers ? 0 : pieces_.slot_offset(member)", "a wrong slice"),
    Bug("last_elements_in_no_part", PIECES, "if (at == ranks_) return all.end;", ";",
        "what does not fill a line of the cache is in nobody's part"),
    Bug("phase_slot_written_too_early", PHASE, "area_->taken(member) + kSlots < next", "false",
        "a barrier is missing: others have not read what was there"),
    Bug("own_phase_slot_written_too_early", PHASE, "posted_ == pieces_ || posted_ == taken_ + kSlots",
        "posted_ == pieces_", "a rank's own part is overwritten before it has read it"),
    Bug("handed_out_before_it_is_here", PHASE, "to_put_.own_runs_end > ready", "false",
        "what messages have not brought yet is handed out"),
    Bug("collected_before_it_was", "memory/phase.h",
        "return taken_ == pieces_ ? runs_->count() : to_take_.run;",
        "return taken_ == pieces_ ? runs_->count() : to_take_.run + 1;",
        "a chunk starts between hosts too early"),
    Bug("turn_not_awaited", "memory/phase.h", "!is_over() && area_->phases_over == base_", "!is_over()",
        "two operations write into the same slots"),
    Bug("owner_not_awaited", PHASE,
        "(to_take_.owners & bit_of(kind_ == PhaseKind::collect ? area_->rank() : member)) != 0", "false",
        "a barrier is missing: what was handed out is not there yet"),
    Bug("next_runs_from_the_beginning", "memory/phase.h", "return run.begin + into;", "return run.begin;",
        "a wrong slice, from the second piece of a run on"),
    Bug("phase_sleeper_names_who_has_come", PHASE, "if (waited_for() == members) return false;",
        "return false;", "a wake-up is lost: another one is missing now"),
    Bug("sign_of_another_phase", PHASE, "(is_current())", "(!is_over())",
        "a wake-up is lost: who waits for its turn takes back the sign of who has it"),
    Bug("sleeper_names_who_has_come", MEMORY, "if (waited_for() == members) return false;",
        "return false;", "a wake-up is lost: another one is missing now"),
    Bug("nobody_is_woken", AREA, "if (sleepers != 0) bells_.ring(sleepers);", ";",
        "a wake-up is lost"),
    Bug("area_of_another_group", AREAS, "if ((found & ~kNone) != name) continue;", ";",
        "two groups work in one area"),
    Bug("area_free_when_one_leaves", AREAS,
        "(table_->areas[area].left.fetch_or(member, std::memory_order_acq_rel) | member) == all",
        "(table_->areas[area].left.fetch_or(member, std::memory_order_acq_rel) | member) != 0",
        "an area is given away while others work in it"),
    Bug("counts_of_the_group_before", HOST_MEMORY,
        "is_last && SealedMemory::give_back(host_.file, offset_of(index), bytes)", "is_last",
        "counts are not zeros for the next group"),
    # ------------------------------------------------------------------ hosts with several ranks
    Bug("wrong_owner_goes_around", SHARDS, "owner == rank", "local.place == 0",
        "a rank sends what another one has"),
    Bug("average_not_taken", SHARDS,
        "composition.then(around.programs[slice / shards], {owners, {}, Completes::yes});",
        "composition.then(around.programs[slice / shards], {owners});",
        "nobody knows which addition is the last"),
    Bug("half_the_laps_counted", SHARDS, "2 * (count - 1) * static_cast<uint32_t>(both)",
        "(count - 1) * static_cast<uint32_t>(both)",
        "credit for half of what a pair sends"),
    Bug("average_taken_twice", LEADERS, "hosts.hosts() == 1", "true",
        "additions inside a host count as the last"),
    Bug("runs_that_do_not_touch", BLOCK_RUNS, "runs.back().end == parts.begin", "true",
        "a wrong slice where a host's ranks do not follow each other"),
    Bug("passed_on_to_the_first", COUNTERPARTS, "slice.target_of(source)",
        "slice.target_of(rank)", "a block goes to the target of the rank that passes it on"),
    Bug("handed_to_all_but_itself", ALL_TO_ALL_COLUMNS,
        "for (const int source : sources_) builder_.keep(block(source, rank_));", ";",
        "who hands a column out keeps nothing of that"),
    Bug("last_row_not_kept", ALL_TO_ALL_LEADERS, "row < all", "row + 1 < all",
        "a rank lacks the block of the last one"),
    Bug("own_block_forgotten", COLUMNS, "if (block == rank) composition.copy(kWhole);", ";",
        "a rank's own block is not in its output"),
    Bug("output_of_a_leader", ROOTED, "rank == root ? Memory::output : Memory::workspace",
        "rooted.leads() ? Memory::output : Memory::workspace",
        "a rank writes where its caller gave nothing"),
    # -------------------------------------------------------------------------------------- wire
    Bug("checksum_ignored", FRAME, "load_le<uint32_t>(at + kAtCrc) != checksum(at)", "false",
        "a broken header is believed"),
    # ------------------------------------------------------------------------------------- trust
    Bug("every_mac_accepted", HMAC,
        "CRYPTO_memcmp(expected.data(), received.data(), expected.size()) == 0", "true",
        "whoever knows the messages is believed without the key"),
    Bug("nonce_not_remembered", JOB, "return nonces_.insert(nonce).second;", "return true;",
        "a ticket that was overheard is good again"),
    Bug("rail_not_checked", HANDSHAKE, RAIL_CHECK, "true", "a stranger's number becomes an index"),
    Bug("unknown_communicator_parked", KEEPER, "parts_.options.serves || !parts_.groups.may_park(comm)",
        "!parts_.groups.may_park(comm)", "a node keeps what nobody has asked it to keep"),
    Bug("long_frame_at_a_node", EVENTS, "header.length > parts_.options.chunk_bytes", "false",
        "a member chooses how much a node holds"),
    Bug("budget_not_charged", BUDGET, "bytes > max_ - used", "false",
        "a job takes all of a node's memory"),
    Bug("node_not_charged", BUDGET, "above_ == nullptr || above_->charge(bytes)", "true",
        "jobs take more together than their node may have"),
    Bug("token_not_checked", OFI_MESSAGE, "load_le<uint64_t>(message.data()) != token", "false",
        "whoever finds a rail's port is believed"),
    Bug("record_not_checked", RECORDS, "!same_mac(mac_of_record(secret, place, bytes), claimed)", "false",
        "who can write in the store speaks for ranks"),
    Bug("own_words_not_looked_for", BOOTSTRAP, "encode(mine) == self_", "true",
        "a rank goes on with what somebody else said of it"),
    Bug("addresses_not_covered", BOOTSTRAP_WELCOME,
        "session.secret = wire::session_secret_of(*secret, welcome.bytes);", "session.secret = *secret;",
        "ranks that were told different addresses connect"),
    Bug("welcome_stays", BOOTSTRAP, "if (!welcome_stays_) return;", "return;",
        "who reads the store later finds the secret"),
    Bug("store_serves_strangers", STORE_SERVER,
        "!same_store_mac(store_mac_of(*key_, StoreSide::client, client.nonce, its_nonce), its_mac)",
        "false", "who has no secret reads what ranks say"),
    Bug("weak_secret_taken", KEY_FILE,
        "if (bits < kKeyBitsMin) return refused_for_length(name, \"\", bits);", ";",
        "a secret that can be guessed is one"),
]
