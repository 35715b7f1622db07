// Phase: what the ranks of one host do in their memory within an operation of a communicator of several
// hosts, before or after messages pass between the hosts.
//
// Contract
//   Owner    one thread, or the progress lock. The area and the runs outlive it. Phases of an area run in
//            the order in which they were made, the same on all its ranks; each waits for the one before.
//   Runs     the vector passes through the slots run by run, in an order that all ranks know alike.
//            Every run has an owner: the rank that passes it on between the hosts.
//              collect   the owner gets the sum of all inputs, added in the order of the ranks (the
//                        same bits each time a program runs), or the input of one rank (`from`)
//              hand_out  the others get the owner's output
//   Memory   the caller's buffers, whole vectors, are borrowed until the phase is over or given up.
//            Output and input may be the same.
//   Waiting  as in an Operation (operation.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "memory/area.h"
#include "memory/members.h"
#include "wire/frame.h"

namespace nezha::memory {

inline constexpr int kAll = -1;

struct Run {
  uint64_t begin = 0;  // the first element, in the vector
  uint64_t size = 0;
  int owner = 0;       // a member
  int from = kAll;     // collect: the member, not the owner, all of whose input it is; kAll: a sum
};

class Runs {
 public:
  virtual ~Runs() = default;
  virtual uint32_t count() const = 0;
  virtual Run at(uint32_t index) const = 0;
  // Collect: where a run that this rank owns goes; `output` is a whole vector. Null: there is no
  // memory, and the operation has failed.
  virtual std::byte* target(uint32_t index, std::byte* output, uint64_t element_bytes) {
    return output + at(index).begin * element_bytes;
  }
  // Collect: whether this rank may take more of the runs that it owns.
  virtual bool has_room() const { return true; }
};

enum class PhaseKind : uint8_t { collect, hand_out };

class Phase {
 public:
  Phase(PhaseKind kind, Area& area, Runs& runs, const Call& call);

  // Moves the phase on as far as it can; false: nothing moved. Hand out: this rank has the output
  // of the runs before `ready` that it owns.
  bool advance(uint32_t ready);
  bool is_over() const { return is_over_; }
  // How many runs, from the first on, this rank has finished.
  uint32_t through() const { return taken_ == pieces_ ? runs_->count() : to_take_.run; }
  // `disagrees`, `said_by`, `awaited` and `sleep` are as in an Operation.
  int disagrees() const { return members_.disagrees(); }
  std::optional<wire::OpDescriptor> said_by(int member) const {
    return members_.said_by(member, base_ + taken_);
  }
  std::vector<int> awaited() const;
  bool sleep(uint32_t ready);

 private:
  // The place in the runs at which a piece begins, and which runs that piece covers.
  struct Place {
    uint32_t run = 0;
    uint64_t into = 0;        // elements of the run that are in the pieces before
    uint64_t owners = 0;      // bits of the members that own a part of the piece
    uint32_t own_runs_end = 0;  // after the last run of the piece that this rank owns; 0: none
  };
  // The part of a run that is in one piece.
  struct Part {
    uint32_t index;  // of the run
    Run run;
    uint64_t into;   // elements of the run that are in the pieces before
    uint64_t size;
    uint64_t offset;  // bytes, in the slot

    uint64_t begin() const { return run.begin + into; }
  };

  bool is_current() const { return !is_over() && area_->phases_over == base_; }
  bool put(uint32_t ready);
  bool take_next();
  bool end();
  bool waits_for(int member) const;
  uint64_t waited_for() const { return room_.waited_for() | posts_.waited_for() | takers_.waited_for(); }
  // Visits the parts of the piece that begins at `place`, and moves `place` to the piece's end.
  template <class Visit>
  void walk(Place& place, Visit visit) const;
  void look_ahead(Place& place) const;
  void put_piece();
  void take_piece();
  const std::byte* source_of(const Part& part) const;
  void collect(const Part& part);
  void add_up(const Part& part, std::byte* to);
  std::byte* slot(int member, uint64_t piece) const { return area_->slot(member, base_ + piece); }

  const PhaseKind kind_;
  Area* const area_;
  Runs* const runs_;
  Members members_;
  const std::byte* const in_;
  std::byte* const out_;
  const double factor_;
  const wire::OpDescriptor op_;
  const uint64_t element_bytes_;
  const uint64_t step_;         // elements of a piece
  uint64_t pieces_ = 1;
  const uint64_t base_;         // the first piece
  uint64_t posted_ = 0;         // of this phase, as taken_
  uint64_t taken_ = 0;
  Place to_put_;
  Place to_take_;
  uint64_t owners_ = 0;         // of all runs
  bool awaits_takers_ = false;
  bool is_over_ = false;
  Members::Watch room_;
  Members::Watch posts_;
  Members::Watch takers_;
};

}  // namespace nezha::memory
