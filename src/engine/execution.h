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
#include "engine/activity.h"
#include "engine/buffer_pool.h"
#include "engine/division.h"
#include "engine/host_phases.h"
#include "engine/op_request.h"
#include "engine/operands.h"
#include "engine/work.h"
#include "memory/operation.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"
#include "transport/connection.h"
#include "wire/frame.h"

namespace nezha::engine {

class CreditAccounts;
class EarlyFrames;
class Failures;
class Transfers;
struct EarlyFrame;
struct EngineOptions;
struct Group;

class Execution final : public Activity {
 public:
  // What it uses of the engine.
  struct Parts {
    const EngineOptions& options;
    BufferPool& pool;
    Transfers& transfers;
    CreditAccounts& credit;
    EarlyFrames& early;
    Failures& failures;
  };

  Execution(const Parts& parts, Group& group)
      : parts_(parts), group_(group), operands_(parts.pool, parts.failures, group) {}
  ~Execution() override;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Takes up an operation; the object is used again and again, so that after warm-up it allocates
  // nothing.
  void prepare(const OpRequest& request, const schedule::Plan& plan,
               std::shared_ptr<const schedule::Schedule> schedule, uint64_t op_seq, Work& work);
  // Opens the first chunks. Only one execution of a group runs its programs at a time: see group.h.
  void start(Nanoseconds now);
  // Where an arriving frame of this operation goes.
  transport::Landing place(transport::Connection& connection, const wire::FrameHeader& header,
                           int member);
  void landed(const wire::FrameHeader& header, const transport::Landing& landing) override;
  void landing_lost(const transport::Landing& landing) override;
  void released(transport::WorkRequest&) override { --unreleased_; }
  // Every use of the caller's memory ends: pending landings and requests are taken back.
  void withdraw();

  bool programs_done() const {
    return low_chunk_ == operands_.map().chunk_count() && (!phases_ || phases_->is_over());
  }
  // The programs are done: from here on only acknowledgements and credits are awaited.
  void close();
  // It is over, and lets go of what it shares with others.
  void rest();
  // Nothing will touch the caller's memory any more, and everyone who had to has consumed.
  bool is_released() const;
  // Algorithm::memory: no rail carries it.
  bool in_memory() const { return memory_.has_value(); }
  // All of it, or phases of it. That may move, as long as its programs are not done; true when it did.
  // Asked for a sleep, it says first who is to wake this rank.
  bool uses_memory() const { return memory_ || phases_; }
  bool advance_in_memory(bool sleeps = false);
  // Its caller waits, and other ranks of the host are about to come. Once chunks travel between the
  // hosts, there are messages to look after.
  bool is_attended() const { return attended_ && (!phases_ || phases_->collected() == 0); }
  bool has_started() const { return started_; }
  bool has_opened(uint32_t chunk) const { return chunk < next_chunk_; }
  // Early frames of an open chunk are in the group's store.
  void early_arrived(uint32_t chunk);
  bool closed = false;
  Division division;  // begins with the execution

  Group& group() const { return group_; }
  uint64_t op_seq() const { return op_seq_; }
  Nanoseconds deadline() const { return deadline_; }
  Nanoseconds started_at() const { return started_at_; }
  uint32_t avoid_rails() const { return avoid_rails_; }
  const wire::OpDescriptor& descriptor() const { return descriptor_; }
  // What this member's frames must say: of all_to_all_v, each pair has a count of its own.
  wire::OpDescriptor descriptor_from(int member) const;
  // The most that this rank may send to one member; operations that run at the same time must fit into
  // its credit together. Without limit where this rank receives nothing: what was consumed of such an
  // operation is known from sums, so nothing else may run.
  uint64_t pair_load() const;
  Work* work() { return work_; }
  uint64_t flight() const { return work_->flight; }
  uint64_t bytes() const { return descriptor_.count * operands_.element_bytes(); }
  // Members from whom data, or who must say that they have consumed ours, is still awaited.
  std::vector<int> awaited_members() const;
  // Whether the rest of the operation needs anything from this member.
  bool needs(int member) const;

 private:
  Cursor& cursor(uint32_t chunk) { return cursors_[chunk % window_]; }
  bool advance_phases(bool sleeps);
  void open_chunks();
  void open(uint32_t chunk);
  void deliver_early(Cursor& at);
  void deliver(Cursor& at, EarlyFrame& frame, int member);
  // Of the program, those that the chunk has.
  uint32_t rounds_of(const Cursor& at) const;
  // Starts rounds until one has to wait; closes the chunk behind the last.
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
  bool local_counts_ = false;  // of the plan: every pair has its own count
  std::vector<Cursor> cursors_;  // at least window_ of them
  uint32_t window_ = 1;
  uint32_t next_chunk_ = 0;  // the next to open
  uint32_t low_chunk_ = 0;   // the first that is not closed
  uint32_t unreleased_ = 0;  // requests that name the caller's memory
  bool started_ = false;
  bool receives_ = false;    // some program receives something
  // Who receives nothing learns only from credits that the others agree with the operation: what
  // each member must have consumed before this one is complete.
  std::vector<uint64_t> consumed_targets_;
  std::vector<bool> sent_to_;  // by member
};

}  // namespace nezha::engine
