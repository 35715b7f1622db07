#include "engine/operation/execution.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

#include "base/check.h"
#include "base/copy.h"
#include "engine/common/options.h"
#include "engine/flow/credit_accounts.h"
#include "engine/flow/early_frames.h"
#include "engine/flow/transfers.h"
#include "engine/group/agenda.h"
#include "engine/group/failure_details.h"
#include "engine/group/failures.h"
#include "engine/operation/constants.h"
#include "engine/operation/mismatch.h"

namespace nezha::engine {

using schedule::Step;
using schedule::StepKind;

namespace {

// Whether the step after a node's step adds to the same range. If so, the payload of this step is
// kept, and all payloads are added in one pass, which rounds short floats once.
bool adds_on(const schedule::Program& program, size_t index) {
  if (index + 1 >= program.steps.size()) return false;
  const Step& step = program.steps[index];
  const Step& next = program.steps[index + 1];
  return step.kind == StepKind::recv_reduce && next.kind == StepKind::recv_reduce &&
         !step.from_input && !next.from_input && !step.peer_first && !next.peer_first &&
         step.part_begin == next.part_begin && step.part_end == next.part_end &&
         step.in_workspace && next.in_workspace;
}

}  // namespace

void Execution::prepare(const OpRequest& request, const Choice& choice, uint64_t op_seq, Work& work) {
  const schedule::Plan& plan = choice.plan;
  schedule_ = choice.share();
  division_ = parts_.transfers.divider().open();
  operands_.prepare(request, plan, *schedule_);
  op_seq_ = op_seq;
  deadline_ = request.deadline;
  work_ = &work;
  avoid_rails_ = request.avoid_rails;
  attended_ = request.attended;
  local_counts_ = plan.local;
  const int root = is_rooted(request.collective) ? request.root : 0;
  descriptor_ = {request.collective, request.dtype, request.op, plan.algorithm,
                 request.is_split ? wire::kSplitRoot : static_cast<uint16_t>(root),
                 request.count, choice.fingerprint};
  window_ = std::min<uint32_t>(plan.window, operands_.map().chunk_count());
  if (cursors_.size() < window_) cursors_.resize(window_);
  next_chunk_ = low_chunk_ = unreleased_ = 0;
  started_ = closed = false;
  consumed_targets_.clear();
  sent_to_.assign(group_.members.size(), false);
  memory_.reset();
  phases_.reset();
  const bool is_source = request.collective == Collective::broadcast && group_.rank == request.root;
  receives_ = choice.receives || (schedule_->inside.hands_out && !is_source);
  const memory::Call call{request.in, request.out, request.input_counts, operands_.factor(), op_seq_,
                          group_.comm, descriptor_};
  if (plan.algorithm == Algorithm::memory) memory_.emplace(*plans_.memory, call);
  if (!schedule_->inside.owners.empty()) {
    phases_.emplace(group_, plans_.areas, *schedule_, operands_, call);
  }
}

wire::OpDescriptor Execution::descriptor_from(int member) const {
  wire::OpDescriptor descriptor = descriptor_;
  if (local_counts_) descriptor.count = operands_.elements_from(member);
  return descriptor;
}

uint64_t Execution::pair_load() const {
  return receives_ ? 2 * bytes() + kPairHeaders : std::numeric_limits<uint64_t>::max();
}

Execution::~Execution() { NEZHA_CHECK(unreleased_ == 0); }

void Execution::start(Nanoseconds now) {
  started_ = true;
  started_at_ = now;
  uses_memory() ? static_cast<void>(advance_in_memory()) : open_chunks();
}

// Hands out, in memory, the chunks that are closed, which means complete on this rank, and opens those
// that were collected from the ranks of the host. Messages of an opened chunk close chunks elsewhere.
bool Execution::advance_phases(bool sleeps) {
  bool moved = false;
  bool any = true;
  for (; any && group_.failed.is_ok(); moved |= any) {
    const uint32_t low = low_chunk_;
    const uint32_t next = next_chunk_;
    any = phases_->advance(low_chunk_, sleeps);
    const int other = phases_->disagrees();
    if (other >= 0) disagree(other, phases_->said());
    if (group_.failed.is_ok()) open_chunks();
    any |= low_chunk_ != low || next_chunk_ != next;
  }
  return moved;
}

// An operation of Algorithm::memory opens no chunks: all of them are closed when it is over.
bool Execution::advance_in_memory(bool sleeps) {
  if (phases_) return advance_phases(sleeps);
  const bool moved = sleeps ? memory_->sleep() : memory_->advance();
  if (memory_->is_over()) low_chunk_ = next_chunk_ = operands_.map().chunk_count();
  const int other = memory_->disagrees();
  if (other >= 0) disagree(other, memory_->said_by(other));
  return moved;
}

bool Execution::check(int member, const wire::OpDescriptor& ours,
                      const wire::OpDescriptor& theirs) const {
  if (ours == theirs) return true;
  const Status differs = describe_mismatch(group_.comm, op_seq_, {group_.rank, ours}, {member, theirs});
  parts_.failures.fail(group_, differs, true);
  return false;
}

void Execution::disagree(int member, const std::optional<wire::OpDescriptor>& theirs) const {
  if (theirs && !check(member, descriptor_, *theirs)) return;
  Status broken = error(Code::internal, "rank %d: rank %d broke the protocol in the memory of this host, "
                        "%s (communicator %" PRIu64 ")", group_.rank, member, activity_of(group_).c_str(),
                        group_.comm);
  parts_.failures.fail(group_, broken.with_peer(member).with(details_of(group_, call(), {member})), true);
}

void Execution::open_chunks() {
  const uint32_t end = phases_ ? phases_->collected() : operands_.map().chunk_count();
  while (next_chunk_ < end && next_chunk_ < low_chunk_ + window_) {
    open(next_chunk_++);
    if (!group_.failed.is_ok()) return;
  }
}

void Execution::open(uint32_t chunk) {
  Cursor& at = cursor(chunk);
  at.chunk = chunk;
  at.round = 0;
  at.waiting = 0;
  at.open = true;
  at.program = &schedule_->programs[operands_.map().slice_of(chunk)];
  operands_.open(at);
  if (phases_) at.workspace = phases_->acquire(chunk);
  begin_round(at);
  deliver_early(at);
  advance(at);
}

void Execution::deliver_early(Cursor& at) {
  while (EarlyFrame* frame = group_.early.pop(op_seq_, at.chunk)) {
    deliver(at, *frame, group_.rank_of_global[static_cast<size_t>(frame->global_rank)]);
    parts_.early.free(group_, *frame);
  }
}

void Execution::early_arrived(uint32_t chunk) {
  Cursor& at = cursor(chunk);
  if (!at.open || at.chunk != chunk) return parts_.early.drop(group_, op_seq_, chunk);
  deliver_early(at);
  if (at.waiting > 0) return;
  advance(at);
  if (group_.failed.is_ok()) open_chunks();
}

void Execution::deliver(Cursor& at, EarlyFrame& frame, int member) {
  const int index = find_step(at, member, frame.header.stage, frame.header.slot);
  if (index < 0 ||
      frame.header.length != operands_.bytes_of(at, at.program->steps[static_cast<size_t>(index)]) ||
      at.steps[static_cast<size_t>(index)].state != StepState::waiting) {
    ++group_.counters.duplicates;
    return;
  }
  const Step& step = at.program->steps[static_cast<size_t>(index)];
  StepSlot& slot = at.steps[static_cast<size_t>(index)];
  note_header(member, frame.header);
  if (step.kind == StepKind::recv) {
    if (frame.header.length > 0) {
      std::byte* target = operands_.target_of(at, step);
      if (target == nullptr) return;
      copy_bytes(target, frame.buffer.data, frame.header.length);
    }
  } else {
    std::swap(slot.scratch, frame.buffer);
  }
  hold(at, static_cast<uint32_t>(index));
  if ((frame.header.flags & wire::kFlagAckNow) != 0) group_.askers.add(member);
  apply(at, static_cast<uint32_t>(index));
}

// A held step is applied when its round has begun; `recv` has nothing left to do by then.
void Execution::apply(Cursor& at, uint32_t step_index) {
  const Step& step = at.program->steps[step_index];
  const uint32_t round_begin = at.round == 0 ? 0 : at.program->round_ends[at.round - 1];
  if (step_index >= at.program->round_ends[at.round]) return;  // a later round
  NEZHA_CHECK(step_index >= round_begin);
  StepSlot& slot = at.steps[step_index];
  const bool is_kept = group_.is_node() && adds_on(*at.program, step_index);
  if (step.kind != StepKind::recv && !is_kept) {
    if (step.kind == StepKind::recv_reduce) {
      operands_.reduce_into(at, step, slot.scratch.data);
    } else {
      operands_.replace(at, step, slot.scratch.data);
    }
    parts_.pool.give(slot.scratch);
    slot.scratch = Buffer();
  }
  finish_step(at, step_index);
  --at.waiting;
}

void Execution::hold(Cursor& at, uint32_t step_index) {
  at.steps[step_index].state = StepState::held;
  ++group_.members[static_cast<size_t>(at.program->steps[step_index].peer)].held;
}

void Execution::finish_step(Cursor& at, uint32_t step_index) {
  const Step& step = at.program->steps[step_index];
  StepState& state = at.steps[step_index].state;
  if (state == StepState::held) --group_.members[static_cast<size_t>(step.peer)].held;
  state = StepState::done;
  parts_.credit.consumed(group_, step.peer, frame_cost(operands_.bytes_of(at, step)));
}

uint32_t Execution::rounds_of(const Cursor& at) const {
  const uint32_t all = at.program->round_count();
  return at.chunk + 1 == operands_.map().chunk_count() ? all : std::min(all, at.program->closing);
}

void Execution::begin_round(Cursor& at) {
  if (at.round >= rounds_of(at)) return;
  const uint32_t begin = at.round == 0 ? 0 : at.program->round_ends[at.round - 1];
  const uint32_t end = at.program->round_ends[at.round];
  for (uint32_t i = begin; i < end; ++i) {
    const Step& step = at.program->steps[i];
    switch (step.kind) {
      case StepKind::send:
        if (at.steps[i].state != StepState::done) post(at, step);
        break;
      case StepKind::recv:
      case StepKind::recv_whole:
      case StepKind::recv_reduce:
        ++at.waiting;
        break;
      default:
        operands_.run_local(at, step);
    }
  }
  // Payloads that arrived ahead of their round are applied after the sends, which must read the
  // range unreduced.
  for (uint32_t i = begin; i < end; ++i) {
    StepSlot& slot = at.steps[i];
    if (slot.state == StepState::held) {
      apply(at, i);
    } else if (slot.state == StepState::done && receives(at.program->steps[i])) {
      --at.waiting;
    }
  }
}

void Execution::post(Cursor& at, const Step& step) {
  const uint32_t length = operands_.bytes_of(at, step);
  const std::byte* source = operands_.source_of(at, step);
  if (!group_.failed.is_ok()) return;
  transport::WorkRequest* request = parts_.transfers.acquire();
  if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
  wire::FrameHeader& header = request->header;
  header = wire::FrameHeader();
  header.comm = group_.comm;
  header.op_seq = op_seq_;
  header.chunk = at.chunk;
  header.stage = step.stage;
  header.slot = step.slot;
  header.length = length;
  header.rails = division_->announced;
  header.op = descriptor_;
  if (local_counts_) header.op.count = operands_.elements_to(step.peer);
  request->division = division_->number;
  request->data = source;
  request->copy = nullptr;
  request->shared = nullptr;
  const bool scaled = step.from_input && operands_.scales();
  const bool is_short = length <= parts_.options.inline_bytes;
  const bool copy = step.copy_source || scaled || is_short;
  if (copy && length > 0 && !operands_.copy_into(*request, scaled)) {
    parts_.transfers.give(*request);
    return parts_.failures.fail_exhausted(group_, length);
  }
  if (!copy && !step.from_input && step.in_workspace) request->shared = at.workspace->share();
  // Long scaled copies are waited for, too: their bytes on a rail are accounted to this operation.
  const bool awaited = !copy || (scaled && !is_short);
  request->owner = awaited ? this : nullptr;
  if (awaited) ++unreleased_;
  // Somebody waits for the answer: the caller for its memory, or this rank, which receives nothing.
  if (awaited || !receives_) header.flags |= wire::kFlagAckNow;
  sent_to_[static_cast<size_t>(step.peer)] = true;
  parts_.credit.post(group_, step.peer, *request);
}

void Execution::advance(Cursor& at) {
  const uint32_t rounds = rounds_of(at);
  while (at.waiting == 0 && at.round < rounds) {
    const bool closes_next = at.round + 1 == at.program->closing && at.round + 1 < rounds;
    if (closes_next && low_chunk_ < at.chunk) return;
    ++at.round;
    begin_round(at);
    if (!group_.failed.is_ok()) return;
  }
  if (at.waiting > 0 || !at.open) return;
  at.open = false;
  at.release_workspace();
  while (low_chunk_ < next_chunk_ && !cursor(low_chunk_).open) ++low_chunk_;
  // The last chunk may have waited for the others with its closing rounds.
  const bool may_close = low_chunk_ < next_chunk_ && low_chunk_ + 1 == operands_.map().chunk_count();
  if (may_close && cursor(low_chunk_).waiting == 0) advance(cursor(low_chunk_));
}

int Execution::find_step(const Cursor& at, int member, uint16_t stage, uint16_t slot) const {
  const auto is_it = [&](const Step& step) {
    return step.stage == stage && step.peer == member && step.slot == slot && receives(step);
  };
  // Frames are mostly of the round that is under way: in a ring there are as many rounds as ranks.
  const std::vector<Step>& steps = at.program->steps;
  const auto now = steps.begin() + (at.round == 0 ? 0 : at.program->round_ends[at.round - 1]);
  auto found = std::find_if(now, steps.end(), is_it);
  if (found == steps.end()) found = std::find_if(steps.begin(), now, is_it);
  return found != steps.end() && is_it(*found) ? static_cast<int>(found - steps.begin()) : -1;
}

transport::Landing Execution::place(transport::Connection& connection, const wire::FrameHeader& header,
                                    int member) {
  transport::Landing landing;
  if (memory_ || header.chunk >= operands_.map().chunk_count()) {
    landing.refused = true;
    return landing;
  }
  Cursor& at = cursor(header.chunk);
  if (header.chunk < low_chunk_ || !at.open || at.chunk != header.chunk) {
    ++group_.counters.duplicates;  // the chunk is finished here
    return landing;
  }
  const int index = find_step(at, member, header.stage, header.slot);
  if (index < 0 ||
      operands_.bytes_of(at, at.program->steps[static_cast<size_t>(index)]) != header.length) {
    landing.refused = true;
    return landing;
  }
  const Step& step = at.program->steps[static_cast<size_t>(index)];
  StepSlot& slot = at.steps[static_cast<size_t>(index)];
  if (slot.state == StepState::landing) {
    if (!parts_.transfers.take_over(connection.peer, *this, header.chunk, static_cast<uint32_t>(index),
                                    wire::generation_of(header.flags))) {
      ++group_.counters.duplicates;
      return landing;
    }
    parts_.pool.give(slot.scratch);
    slot.begin_again();
  }
  if (slot.state != StepState::waiting) {
    ++group_.counters.duplicates;
    return landing;
  }
  note_header(member, header);
  landing.owner = this;
  landing.chunk = header.chunk;
  landing.step = static_cast<uint32_t>(index);
  landing.generation = wire::generation_of(header.flags);
  if (operands_.lands_directly(step)) {
    landing.destination = operands_.target_of(at, step);
    if (!group_.failed.is_ok()) return transport::Landing();
  } else {
    slot.scratch = parts_.pool.allocate(std::max<size_t>(header.length, 1));
    if (slot.scratch.data == nullptr) {
      parts_.failures.fail_exhausted(group_, header.length);
      return transport::Landing();
    }
    landing.destination = slot.scratch.data;
  }
  slot.state = StepState::landing;
  return landing;
}

// Notes what rank 0 announces for the next operation like this one, and whether the member wants an
// answer, which leaves when the programs are done here (CreditAccounts::answer).
void Execution::note_header(int member, const wire::FrameHeader& header) {
  if (header.rails != 0 && group_.rank != 0) division_->announced = header.rails;
  if ((header.flags & wire::kFlagAckNow) != 0) group_.askers.add(member);
}

void Execution::landed(const wire::FrameHeader&, const transport::Landing& landing) {
  Cursor& at = cursor(landing.chunk);
  const Step& step = at.program->steps[landing.step];
  if (step.kind == StepKind::recv && landing.step >= at.program->round_ends[at.round]) {
    finish_step(at, landing.step);  // already in its place; the round will find it done
    return;
  }
  hold(at, landing.step);
  apply(at, landing.step);
  if (at.waiting == 0) {
    advance(at);
    if (group_.failed.is_ok()) open_chunks();
  }
}

void Execution::landing_lost(const transport::Landing& landing) {
  StepSlot& slot = cursor(landing.chunk).steps[landing.step];
  parts_.pool.give(slot.scratch);
  slot.begin_again();
}

void Execution::released(transport::WorkRequest&) {
  if (--unreleased_ == 0) parts_.agenda.progress(group_);
}

void Execution::withdraw() {
  parts_.transfers.withdraw(*this);
  memory_.reset();
  phases_.reset();
  unreleased_ = 0;
  for (Cursor& at : cursors_) {
    at.release_workspace();
    for (StepSlot& slot : at.steps) {
      parts_.pool.give(slot.scratch);
      slot.begin_again();
    }
  }
}

void Execution::close() {
  if (receives_) return;
  for (size_t i = 0; i < group_.members.size(); ++i) {
    const Member& member = group_.members[i];
    consumed_targets_.push_back(sent_to_[i] ? member.sent + member.blocked.bytes() : 0);
  }
}

void Execution::rest() {
  memory_.reset();
  phases_.reset();
  schedule_.reset();
}

bool Execution::is_released() const {
  if (unreleased_ > 0) return false;
  for (size_t i = 0; i < consumed_targets_.size(); ++i) {
    if (group_.members[i].credited < consumed_targets_[i]) return false;
  }
  return true;
}

std::vector<int> Execution::awaited_members() const {
  if (memory_) return started_ ? memory_->awaited() : std::vector<int>();
  std::vector<int> awaited;
  if (phases_ && started_) phases_->add_awaited(awaited);
  for (size_t c = 0; c < window_ && started_; ++c) {
    const Cursor& at = cursors_[c];
    if (!at.open) continue;
    for (size_t i = 0; i < at.steps.size(); ++i) {
      const StepState state = at.steps[i].state;
      if (receives(at.program->steps[i]) &&
          (state == StepState::waiting || state == StepState::landing)) {
        awaited.push_back(at.program->steps[i].peer);
      }
    }
  }
  for (size_t i = 0; i < consumed_targets_.size(); ++i) {
    if (group_.members[i].credited < consumed_targets_[i]) awaited.push_back(static_cast<int>(i));
  }
  std::sort(awaited.begin(), awaited.end());
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  return awaited;
}

bool Execution::needs(int member) const {
  if (!started_) return true;
  const Member& other = group_.members[static_cast<size_t>(member)];
  if (!other.blocked.empty()) return true;
  if (!consumed_targets_.empty()) {
    return other.credited < consumed_targets_[static_cast<size_t>(member)];
  }
  const std::vector<int> awaited = awaited_members();
  if (std::binary_search(awaited.begin(), awaited.end(), member)) return true;
  if (next_chunk_ == operands_.map().chunk_count()) return false;
  return std::any_of(schedule_->programs.begin(), schedule_->programs.end(), [&](const auto& program) {
    return std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
      return receives(step) && step.peer == member;
    });
  });
}

}  // namespace nezha::engine
