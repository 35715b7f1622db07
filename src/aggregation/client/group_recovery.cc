// HubOperations: what happens after the hub was lost.
#include <algorithm>

#include "aggregation/client/group.h"
#include "base/log.h"

namespace nezha::context {

using engine::OpRequest;

void HubOperations::look_at_hub() {
  if (stage_ == Stage::active && (hub_group_ == nullptr || give_up_)) return begin_repair();
  if (hub_group_ == nullptr || hub_group_->failed.is_ok()) return;
  if (stage_ == Stage::active) {
    NEZHA_LOG(info, "aggregation", "rank %d: the aggregation node gave communicator %u up: %s",
              group_.rank, group_.comm, hub_group_->failed.message().c_str());
    begin_repair();
  } else {
    leave_hub_group(false);
  }
}

void HubOperations::begin_repair() {
  leave_hub_group(false);
  give_up_ = false;
  stage_ = Stage::leaving;
  repairing_ = true;
  ++counters_.repairs;
  for (Operation& operation : open_) look_at(operation, hosts().now());
  repair_.start(encode(claims()), false);
}

HubClaims HubOperations::claims() const {
  HubClaims claims;
  claims.begun = claims.through = next_seq_;
  for (const Operation& operation : open_) {
    if (operation.way == Way::hosts || operation.hub_done) continue;
    claims.through = std::min(claims.through, operation.seq);
  }
  claims.open.resize(claims.begun - claims.through);
  for (HubClaim& claim : claims.open) claim.through = true;
  for (const Operation& operation : open_) {
    if (operation.way == Way::hosts || operation.hub_done) continue;
    HubClaim& claim = claims.open[operation.seq - claims.through];
    claim.through = false;
    claim.held = operation.landed;
  }
  return claims;
}

void HubOperations::end_repair() {
  repairing_ = false;
  if (!repair_.status().is_ok()) return;  // the communicator fails
  claims_.assign(static_cast<size_t>(group_.world_size()), {});
  end_seq_ = 0;
  mend_next_ = UINT64_MAX;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    HubClaims& said = claims_[static_cast<size_t>(rank)];
    if (!decode(repair_.of(rank), &said)) {
      return hosts().fail_group(group_, error(Code::internal, "rank %d: rank %d's account of what it has "
                                              "is none", group_.rank, rank), true);
    }
    end_seq_ = std::max(end_seq_, said.begun);
    mend_next_ = std::min(mend_next_, said.through);
  }
  post_mends();
}

// In the order of the operations, which is the same everywhere; those that are not begun here yet are
// mended when they are.
void HubOperations::post_mends() {
  if (stage_ != Stage::leaving || repairing_) return;
  for (; mend_next_ < std::min(next_seq_, end_seq_); ++mend_next_) {
    const auto open = std::find_if(open_.begin(), open_.end(), [&](const Operation& operation) {
      return operation.way != Way::hosts && operation.seq == mend_next_;
    });
    if (open != open_.end()) {
      mend(mend_next_, open->request, open->front, &*open);
      open->mends_posted = true;
      continue;
    }
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
      return each.seq == mend_next_;
    });
    if (kept == kept_.end()) continue;  // over everywhere
    OpRequest request = kept->request;
    request.in = request.out = kept->result.data();
    mend(mend_next_, request, 0, nullptr);
  }
}

void HubOperations::mend(uint64_t seq, const OpRequest& request, uint64_t front, Operation* operation) {
  if (request.collective == Collective::barrier) {
    if (!anyone_through(seq, claims_)) post_mend(request, operation);
    return;
  }
  const std::vector<HubPiece> pieces = missing_pieces(seq, request.count - front, claims_);
  counters_.mended += pieces.empty() ? 0 : 1;
  for (const HubPiece& piece : pieces) {
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
    post_mend(part, operation);
  }
}

void HubOperations::post_mend(OpRequest request, Operation* operation) {
  request.deadline = std::max(request.deadline, hosts().now() + kMendPatience);
  Mend& mend = *mends_.emplace_back(std::make_unique<Mend>());
  mend.operation = operation;
  if (operation != nullptr) ++operation->mends_left;
  const Status posted = hosts().submit(repairs_group_, request, mend.work);
  if (!posted) mend.work.complete(posted);
}

void HubOperations::look_at_mends() {
  std::erase_if(mends_, [&](const std::unique_ptr<Mend>& mend) {
    if (!mend->work.is_done()) return false;
    const Status& status = mend->work.status();
    if (!status.is_ok() && group_.failed.is_ok()) hosts().fail_group(group_, status, true);
    if (mend->operation != nullptr) {
      --mend->operation->mends_left;
      if (!status.is_ok()) mend->operation->status = status;
    }
    return true;
  });
}

}  // namespace nezha::context
