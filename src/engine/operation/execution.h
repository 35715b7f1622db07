// Execution: one running operation: a schedule, a plan, the caller's buffers, a cursor per open chunk.
//
// Contract
//   Owner    its Group; touched only with the loop's progress lock held.
//   Memory   `in` and `out` are borrowed until the Work completes. Scratch comes from the engine's pool.
//   Once     a step is applied exactly once per transfer identity, whichever rails carried it and how
//            often; a duplicate is recognised before it touches memory.
//   Order    the schedule alone fixes the order of additions: the bits do not depend on rails or time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/common/buffer_pool.h"
#include "engine/endpoint/rail_divider.h"
#include "engine/group/group_work.h"
#include "engine/operation/host_phases.h"
#include "engine/operation/kept_plans.h"
#include "engine/common/op_request.h"
#include "engine/operation/operands.h"
#include "engine/common/work.h"
#include "memory/operation.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"
#include "transport/connection.h"
#include "wire/frame.h"

namespace nezha::engine {

class Agenda;
class CreditAccounts;
class EarlyFrames;
class Failures;
class Transfers;
struct EarlyFrame;
struct EngineOptions;
struct Group;

class Execution final : public transport::WorkOwner {
 public:
  // The parts of the engine that an Execution uses.
  struct Parts {
    const EngineOptions& options;
    BufferPool& pool;
    Transfers& transfers;
    CreditAccounts& credit;
    EarlyFrames& early;
    Failures& failures;
    Agenda& agenda;
  };

  Execution(const Parts& parts, Group& group, const KeptPlans& plans)
      : parts_(parts), group_(group), plans_(plans), operands_(parts.pool, parts.failures, group) {}
  ~Execution() override;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Takes up an operation; the object is used again and again, so that after warm-up it allocates
  // nothing.
  void prepare(const OpRequest& request, const Choice& choice, uint64_t op_seq, Work& work);
  // Opens the first chunks. Operations says which executions of a group run beside each other.
  void start(Nanoseconds now);
  // Says where an arriving frame of this operation goes.
  transport::Landing place(transport::Connection& connection, const wire::FrameHeader& header,
                           int member);
  void landed(const wire::FrameHeader& header, const transport::Landing& landing) override;
  void landing_lost(const transport::Landing& landing) override;
  void released(transport::WorkRequest&) override;
  // Every use of the caller's memory ends: pending landings and requests are taken back.
  void withdraw();

  bool programs_done() const {
    return low_chunk_ == operands_.map().chunk_count() && (!phases_ || phases_->is_over());
  }
  // The programs are done: from here on only acknowledgements and credits are awaited.
  void close();
  // The operation is over: gives back what it shares with others.
  void rest();
  // True: nothing touches the caller's memory any more, and all members that had to have consumed.
  bool is_released() const;
  // True for Algorithm::memory: no rail carries the operation.
  bool in_memory() const { return memory_.has_value(); }
  // uses_memory: the operation, or phases of it, run in memory. advance_in_memory moves these until
  // the programs are done; true: something moved. `sleeps`: it first asks the ranks that it waits
  // for to wake this one.
  bool uses_memory() const { return memory_ || phases_; }
  bool advance_in_memory(bool sleeps = false);
  // True: the caller waits, and the other ranks of the host are about to take part. Once chunks
  // travel between hosts it is false, because there are frames to look after.
  bool is_attended() const { return attended_ && (!phases_ || phases_->collected() == 0); }
  bool has_started() const { return started_; }
  bool has_opened(uint32_t chunk) const { return chunk < next_chunk_; }
  // Early frames of an open chunk are in the group's store.
  void early_arrived(uint32_t chunk);
  bool closed = false;
  // How its transfers are divided among the rails; begins with the execution, and stays until the
  // object is used again: other ranks may still need frames then.
  Division& division() { return *division_; }
  const Division& division() const { return *division_; }

  Group& group() const { return group_; }
  uint64_t op_seq() const { return op_seq_; }
  Nanoseconds deadline() const { return deadline_; }
  Nanoseconds started_at() const { return started_at_; }
  uint32_t avoid_rails() const { return avoid_rails_; }
  const wire::OpDescriptor& descriptor() const { return descriptor_; }
  // The description in this member's frames: in an all_to_all_v each pair has its own count.
  wire::OpDescriptor descriptor_from(int member) const;
  // The most bytes that this rank may send to one member; operations that run at the same time must
  // fit into half of its credit together. The maximum where this rank receives nothing: how much
  // was consumed of such an operation is known from sums only, so nothing else may run beside it.
  uint64_t pair_load() const;
  Work* work() { return work_; }
  uint64_t flight() const { return work_->flight; }
  uint64_t bytes() const { return descriptor_.count * operands_.element_bytes(); }
  OpenCall call() const { return {descriptor_, op_seq_, bytes()}; }
  // Whether a member describes the operation as this rank does; the group fails if not.
  bool check(int member, const wire::OpDescriptor& ours, const wire::OpDescriptor& theirs) const;
  // The members from which this rank still awaits data, or the credit for the data that it sent.
  std::vector<int> awaited_members() const;
  // Whether the rest of the operation needs anything from this member.
  bool needs(int member) const;

 private:
  Cursor& cursor(uint32_t chunk) { return cursors_[chunk % window_]; }
  bool advance_phases(bool sleeps);
  // A member makes another call, as it says in the host's memory; no `theirs`: that cannot be read.
  void disagree(int member, const std::optional<wire::OpDescriptor>& theirs) const;
  void open_chunks();
  void open(uint32_t chunk);
  void deliver_early(Cursor& at);
  void deliver(Cursor& at, EarlyFrame& frame, int member);
  // How many rounds of its program the chunk runs: only the last chunk has the closing ones.
  uint32_t rounds_of(const Cursor& at) const;
  // Starts rounds until one has to wait; closes the chunk after the last one.
  void advance(Cursor& at);
  void begin_round(Cursor& at);
  void post(Cursor& at, const schedule::Step& step);
  void apply(Cursor& at, uint32_t step_index);
  void hold(Cursor& at, uint32_t step_index);
  void finish_step(Cursor& at, uint32_t step_index);
  void note_header(int member, const wire::FrameHeader& header);
  // Index of the receiving step with this identity; -1 when the program has none.
  int find_step(const Cursor& at, int member, uint16_t stage, uint16_t slot) const;

  const Parts parts_;
  Group& group_;
  const KeptPlans& plans_;
  Operands operands_;
  std::shared_ptr<const schedule::Schedule> schedule_;
  wire::OpDescriptor descriptor_;
  uint64_t op_seq_ = 0;
  Nanoseconds deadline_ = kNever;
  Nanoseconds started_at_ = 0;
  Work* work_ = nullptr;
  uint32_t avoid_rails_ = 0;
  bool attended_ = false;
  std::optional<memory::Operation> memory_;
  std::optional<HostPhases> phases_;
  bool local_counts_ = false;  // as the plan's `local`: every pair has its own count
  std::vector<Cursor> cursors_;  // at least window_ of them
  uint32_t window_ = 1;
  uint32_t next_chunk_ = 0;  // the next to open
  uint32_t low_chunk_ = 0;   // the first that is not closed
  uint32_t unreleased_ = 0;  // requests that name the caller's memory
  bool started_ = false;
  bool receives_ = false;    // some program receives something
  // A rank that receives nothing learns only from credits that the others agree with the operation.
  // By member: the cost of frames that it must have consumed before the operation is complete here.
  std::vector<uint64_t> consumed_targets_;
  std::vector<bool> sent_to_;  // by member
  RailDivider::Open division_;
};

}  // namespace nezha::engine
