// Operands: the memory of one operation: which bytes the steps of a chunk read and write, and the
// arithmetic on them.
//
// Contract: owned by an Execution, progress lock held. The caller's buffers are borrowed, scratch and
// workspaces come from the pool. Without memory for a workspace the group fails, and nothing is written.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/common/buffer_pool.h"
#include "engine/common/op_request.h"
#include "engine/common/workspace.h"
#include "schedule/chunk_map.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"
#include "transport/work_request.h"

namespace nezha::engine {

class Failures;
struct Group;

enum class StepState : uint8_t { waiting, landing, held, done };
struct StepSlot {
  StepState state = StepState::waiting;
  Buffer scratch;
  schedule::Range range;  // what the step reads or writes
  void begin_again() { state = StepState::waiting, scratch = Buffer(); }
};
// An open chunk.
struct Cursor {
  uint32_t chunk = 0;
  uint32_t round = 0;    // rounds before it are finished
  uint32_t waiting = 0;  // receiving steps of the current round not yet applied
  bool open = false;
  const schedule::Program* program = nullptr;
  std::array<schedule::Range, 3> ranges;  // by schedule::Side
  const schedule::Range& range(schedule::Side side) const { return ranges[static_cast<size_t>(side)]; }
  Workspace* workspace = nullptr;  // made when something is first written there
  void release_workspace() {
    if (Workspace* const ended = std::exchange(workspace, nullptr)) ended->release();
  }
  std::vector<StepSlot> steps;
};

class Operands {
 public:
  Operands(BufferPool& pool, Failures& failures, Group& group)
      : pool_(pool), failures_(failures), group_(group) {}

  // Takes up an operation.
  void prepare(const OpRequest& request, const schedule::Plan& plan, const schedule::Schedule& schedule);
  const schedule::ChunkMap& map() const { return map_; }
  uint64_t element_bytes() const { return element_bytes_; }
  // For all_to_all_v: how many elements go to a member, and come from it.
  uint64_t elements_to(int member) const { return blocks_.input(static_cast<size_t>(member)).size(); }
  uint64_t elements_from(int member) const { return blocks_.output(static_cast<size_t>(member)).size(); }

  // Finds for the cursor's chunk and program what each step reads or writes.
  void open(Cursor& at) const;
  schedule::Range range_of(const Cursor& at, const schedule::Step& step) const {
    return at.steps[static_cast<size_t>(&step - at.program->steps.data())].range;
  }
  uint32_t bytes_of(const Cursor& at, const schedule::Step& step) const {
    return static_cast<uint32_t>(range_of(at, step).size() * element_bytes_);
  }
  bool lands_directly(const schedule::Step& step) const {
    return step.kind == schedule::StepKind::recv ||
           (step.kind == schedule::StepKind::recv_whole && !replaces_input_);
  }
  // Where the step writes: output or workspace. Null when there is no memory for a workspace.
  std::byte* target_of(Cursor& at, const schedule::Step& step);
  const std::byte* source_of(Cursor& at, const schedule::Step& step);
  void run_local(Cursor& at, const schedule::Step& step);
  // `incoming`: the payload; null when it has landed in its place.
  void replace(Cursor& at, const schedule::Step& step, const std::byte* incoming);
  void reduce_into(Cursor& at, const schedule::Step& step, const std::byte* incoming);
  // Makes the request send from a private copy; false when there is no memory for it.
  bool copy_into(transport::WorkRequest& request, bool scaled);
  // The factor by which inputs are multiplied; scales(): whether they are.
  double factor() const { return factor_; }
  bool scales() const { return factor_ != 1; }
  std::byte* output_at(schedule::Range range) const {
    return out_ + (range.begin - out_origin_) * element_bytes_;
  }
  // Makes the workspace of a chunk; null when there is no memory.
  Workspace* make_workspace(uint32_t chunk);

 private:
  void set_blocks(const OpRequest& request);
  static schedule::Side written_side(const schedule::Step& step) {
    return step.in_workspace ? schedule::Side::workspace : schedule::Side::output;
  }
  schedule::Range find_range(const Cursor& at, const schedule::Step& step) const {
    const auto side = step.from_input ? schedule::Side::input : written_side(step);
    return map_.parts(at.range(side), at.program->parts, step.part_begin, step.part_end, side);
  }
  const std::byte* input_at(schedule::Range range) const {
    return in_ + (range.begin - in_origin_) * element_bytes_;
  }
  std::byte* workspace_at(Cursor& at, schedule::Range range);
  // Copies the step's parts from the workspace to the output.
  void keep(Cursor& at, const schedule::Step& step);
  void take_note(schedule::Range range);
  // Copies input to `to`, scaled if the operation scales its inputs.
  void take_input(std::byte* to, const std::byte* from, uint64_t count);

  BufferPool& pool_;
  Failures& failures_;
  Group& group_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  uint64_t in_origin_ = 0;   // the element at which the buffer begins
  uint64_t out_origin_ = 0;
  Dtype dtype_ = Dtype::float32;
  ReduceOp op_ = ReduceOp::sum;
  uint64_t element_bytes_ = 0;
  double factor_ = 1;
  std::vector<schedule::Range>* landed_ = nullptr;
  bool replaces_input_ = false;  // input and output share memory
  schedule::ChunkMap map_;
  schedule::Blocks blocks_;
};

}  // namespace nezha::engine
