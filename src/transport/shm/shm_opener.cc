#include "transport/shm/shm_opener.h"

#include "transport/connect/handshake.h"
#include "transport/shm/shm_test.h"
#include "transport/shm/shm_wire.h"

namespace nezha::transport {

void ShmOpener::begin(const MeshRequest& request) {
  required_ = request.shared_memory == SharedMemory::required;
  is_near_.assign(request.ranks.size(), false);
  is_apart_ = is_near_;
  if (request.shared_memory == SharedMemory::off) return;
  for (size_t rank = 0; rank < is_near_.size(); ++rank) {
    is_near_[rank] = request.is_same_host(static_cast<int>(rank));
  }
}

std::vector<int> ShmOpener::apart() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < is_apart_.size(); ++rank) {
    if (is_apart_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Result<std::unique_ptr<RailTest>> ShmOpener::test(const Proved& proved) {
  auto beneath = beneath_.test(proved);
  const uint32_t peer = proved.dialer ? proved.hello.acceptor_rank : proved.hello.dialer_rank;
  if (!beneath || !is_near_[peer]) return beneath;
  return std::unique_ptr<RailTest>(std::make_unique<ShmTest>(proved, std::move(*beneath), required_));
}

std::unique_ptr<Wire> ShmOpener::make_wire(const MeshRequest& request, progress::Loop& loop,
                                           Handshake& handshake) {
  const auto peer = static_cast<size_t>(handshake.peer());
  if (is_near_[peer]) {
    const std::unique_ptr<RailTest> test = handshake.release_test();
    ShmChannel channel = static_cast<ShmTest&>(*test).release_channel();  // as `test` made it
    if (channel.segment != nullptr) {
      const std::string name = "shared memory with rank " + std::to_string(peer) + " (" +
                               request.rail_of(request.rank, handshake.rail()).name + ")";
      return std::make_unique<ShmWire>(loop, std::move(channel), name);
    }
    is_apart_[peer] = true;
  }
  return beneath_.make_wire(request, loop, handshake);
}

}  // namespace nezha::transport
