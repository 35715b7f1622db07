// NodeGroup: recovery, after the node was lost.
#include <algorithm>
#include <cinttypes>

#include "aggregation/client/group.h"
#include "base/log.h"

namespace nezha::aggregation {

using engine::OpRequest;

void NodeGroup::check_node() {
  if (stage_ == Stage::ending || (stage_ == Stage::active && node_group_ == nullptr)) {
    return begin_recovery();
  }
  if (node_group_ == nullptr || node_group_->failed.is_ok()) return;
  if (stage_ == Stage::active) {
    NEZHA_LOG(info, "aggregation", "rank %d: the aggregation node ended communicator %" PRIu64 ": %s",
              group_.rank, group_.comm, node_group_->failed.message().c_str());
    begin_recovery();
  } else {
    leave_node_group(false);
  }
}

void NodeGroup::begin_recovery() {
  leave_node_group(false);
  enter(Stage::exchanging);
  ++counters_.recoveries;
  for (Operation& operation : open_) look_at(operation, client_.now());
  exchange_.start(encode(progress()), false);
}

RankProgress NodeGroup::progress() const {
  RankProgress progress;
  progress.begun = progress.completed = next_seq_;
  for (const Operation& operation : open_) {
    if (operation.lacks_node_part()) progress.completed = std::min(progress.completed, operation.seq);
  }
  progress.open.assign(progress.begun - progress.completed, {true, {}});
  for (const Operation& operation : open_) {
    if (!operation.lacks_node_part()) continue;
    progress.open[operation.seq - progress.completed] = {false, operation.landed};
  }
  return progress;
}

void NodeGroup::finish_exchange() {
  enter(Stage::leaving);
  if (!exchange_.status().is_ok()) return;  // the communicator fails
  progress_.assign(static_cast<size_t>(group_.world_size()), {});
  end_seq_ = 0;
  recover_next_ = UINT64_MAX;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    RankProgress& said = progress_[static_cast<size_t>(rank)];
    if (!decode(exchange_.of(rank), &said)) {
      const Status malformed = error(Code::internal, "rank %d: rank %d reported malformed progress of "
                                     "its operations", group_.rank, rank);
      return hosts().fail(group_, malformed, true);
    }
    end_seq_ = std::max(end_seq_, said.begun);
    recover_next_ = std::min(recover_next_, said.completed);
  }
  post_recovery();
}

// In the order of the operations, which is the same everywhere; those that are not begun here yet are
// recovered when they are.
void NodeGroup::post_recovery() {
  if (stage_ != Stage::leaving) return;
  for (; recover_next_ < std::min(next_seq_, end_seq_); ++recover_next_) {
    const auto open = std::find_if(open_.begin(), open_.end(), [&](const Operation& operation) {
      return operation.way != rails::Way::hosts && operation.seq == recover_next_;
    });
    if (open != open_.end()) {
      recover(recover_next_, open->request, open->front, &*open);
      if (open->lacks_node_part()) open->enter(NodePart::recovering);
      continue;
    }
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
      return each.seq == recover_next_;
    });
    if (kept == kept_.end()) continue;  // over everywhere
    OpRequest request = kept->request;
    request.in = request.out = kept->result.data();
    recover(recover_next_, request, 0, nullptr);
  }
}

void NodeGroup::recover(uint64_t seq, const OpRequest& request, uint64_t front, Operation* operation) {
  if (request.collective == Collective::barrier) {
    if (!anyone_completed(seq, progress_)) post_step(request, operation);
    return;
  }
  const std::vector<MissingPiece> pieces = missing_pieces(seq, request.count - front, progress_);
  counters_.recovered += pieces.empty() ? 0 : 1;
  for (const MissingPiece& piece : pieces) {
    OpRequest part = request;
    const uint64_t skipped = (front + piece.range.begin) * dtype_size(request.dtype);
    part.count = piece.range.size();
    part.out = static_cast<std::byte*>(request.out) + skipped;
    part.in = static_cast<const std::byte*>(request.in) + skipped;
    const uint64_t bytes = part.count * dtype_size(request.dtype);
    if (piece.holder >= 0) {
      part.collective = Collective::broadcast;
      part.op = ReduceOp::sum;
      part.factor = 1;
      part.in = part.out;
      part.root = piece.holder;
      counters_.served_bytes += bytes;
    } else {
      counters_.reduced_bytes += bytes;
    }
    post_step(part, operation);
  }
}

void NodeGroup::post_step(OpRequest request, Operation* operation) {
  request.deadline = std::max(request.deadline, client_.now() + kRecoveryTimeout);
  request.is_part = true;
  RecoveryStep& step = *steps_.emplace_back(std::make_unique<RecoveryStep>());
  step.operation = operation;
  if (operation != nullptr) ++operation->steps_left;
  const Status posted = hosts().submit(recovery_group_, request, step.work);
  if (!posted) step.work.complete(posted);
}

void NodeGroup::poll_steps() {
  std::erase_if(steps_, [&](const std::unique_ptr<RecoveryStep>& step) NEZHA_REQUIRES_LOCK {
    if (!step->work.is_done()) return false;
    const Status& status = step->work.status();
    if (!status.is_ok() && group_.failed.is_ok()) hosts().fail(group_, status, true);
    if (step->operation != nullptr) {
      --step->operation->steps_left;
      if (!status.is_ok()) step->operation->status = status;
    }
    return true;
  });
}

}  // namespace nezha::aggregation
