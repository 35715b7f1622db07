#include "fabric/fabric_port.h"

#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>

#include "fabric/fabric_sockets.h"

namespace nezha::transport {

namespace {

constexpr uint64_t kLongTag = 1;

}  // namespace

Result<std::unique_ptr<FabricPort>> FabricPort::open(FabricRail& rail, size_t completions) {
  std::unique_ptr<FabricPort> port;
  if (rail.isolates_ports()) {
    auto own = rail.another();
    if (!own) return own.status();
    port.reset(new FabricPort(std::move(*own)));
  } else {
    port.reset(new FabricPort(rail));
  }
  NEZHA_RETURN_IF_ERROR(port->open(completions));
  return port;
}

int FabricPort::open_queue(size_t completions, fi_wait_obj wait) {
  fi_cq_attr attributes{};
  attributes.size = completions;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = wait;
  attributes.wait_set = wait_;
  return fi_cq_open(rail_.domain(), &attributes, &queue_, nullptr);
}

// The descriptor of a queue of `net` in libfabric 1.17 is ready for ever once anything has come, since
// fi_trywait does nothing there; a wait set does what it should.
int FabricPort::open_waiting_queue(size_t completions) {
  if (rail_.provider() != "net") {
    const int reason = open_queue(completions, FI_WAIT_FD);
    if (reason == 0 && fi_control(&queue_->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
    return reason;
  }
  fi_wait_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  int reason = fi_wait_open(rail_.fabric(), &attributes, &wait_);
  if (reason == 0) reason = open_queue(completions, FI_WAIT_SET);
  if (reason == 0 && fi_control(&wait_->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
  return reason;
}

Status FabricPort::open(size_t completions) {
  const auto failed = [&](const char* what, long reason) {
    return error(Code::exhausted, "cannot open a port of the rail %s: %s: %s; raise the limit of "
                 "descriptors (ulimit -n)", rail_.name().c_str(), what,
                 rail_.library().explain(reason).c_str());
  };
  int reason = open_waiting_queue(completions);
  if (reason != 0 && (reason = open_queue(completions, FI_WAIT_NONE)) != 0) {
    return failed("completion queue", reason);
  }
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  table.count = 1;
  if (reason = fi_av_open(rail_.domain(), &table, &addresses_, nullptr); reason != 0) {
    return failed("address table", reason);
  }
  auto* const info = const_cast<fi_info*>(&rail_.info());
  if (reason = fi_endpoint(rail_.domain(), info, &endpoint_, nullptr); reason != 0) {
    return failed("endpoint", reason);
  }
  reason = fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (reason == 0) reason = fi_ep_bind(endpoint_, &addresses_->fid, 0);
  if (reason == 0) reason = fi_enable(endpoint_);
  if (reason != 0) return failed("enabling it", reason);
  std::array<char, 512> name;
  size_t length = name.size();
  if (reason = fi_getname(&endpoint_->fid, name.data(), &length); reason != 0) {
    return failed("its address", reason);
  }
  name_.assign(name.data(), std::min(length, name.size()));
  note_address(name_);
  return Status::ok();
}

// Providers that stand on sockets say nothing of them.
void FabricPort::note_address(std::string_view name) {
  const uint32_t format = rail_.info().addr_format;
  if (format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6) note_fabric_address(name);
}

// libfabric 1.17's `net` forgets, with the port, a connection that was accepted and has not said yet what
// it wants: its socket stays open for as long as the process lives. Asked once more after it was closed,
// the provider closes it.
void FabricPort::hang_up() {
  hang_up_fabric_address(name_);
  constexpr int kEnough = 64;  // the queue's last completions, by the batch
  std::array<Completion, 16> last;
  for (int quiet = 0, asked = 0; quiet < 2 && asked < kEnough; ++asked) {
    quiet = reap(last.data(), last.size()) > 0 ? 0 : quiet + 1;
  }
}

void FabricPort::close() {
  if (own_ != nullptr && endpoint_ != nullptr) hang_up();
  for (const Peer& peer : peers_) forget_fabric_address(peer.name);
  peers_.clear();
  forget_fabric_address(name_);
  name_.clear();
  fid* const endpoint = endpoint_ == nullptr ? nullptr : &endpoint_->fid;
  fid* const addresses = addresses_ == nullptr ? nullptr : &addresses_->fid;
  fid* const queue = queue_ == nullptr ? nullptr : &queue_->fid;
  if (rail_.keeps_ports()) {
    rail_.keep(endpoint, addresses, queue);
  } else {
    fid* const wait = wait_ == nullptr ? nullptr : &wait_->fid;
    for (fid* each : {endpoint, addresses, queue, wait}) {
      if (each != nullptr) fi_close(each);
    }
  }
  endpoint_ = nullptr;
  addresses_ = nullptr;
  queue_ = nullptr;
  wait_ = nullptr;
  wait_fd_ = -1;
}

Result<fi_addr_t> FabricPort::insert(std::string_view peer) {
  // The provider reads as much as its addresses are long.
  std::string padded(peer);
  padded.resize(std::max<size_t>(padded.size(), 512));
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(addresses_, padded.data(), 1, &address, 0, nullptr);
  if (inserted == 1 && address != FI_ADDR_NOTAVAIL) {
    peers_.push_back({address, std::string(peer)});
    note_address(peer);
    return address;
  }
  return error(Code::peer_lost, "rail %s does not take a peer's address: %s", rail_.name().c_str(),
               rail_.library().explain(inserted < 0 ? inserted : FI_EADDRNOTAVAIL).c_str());
}

void FabricPort::remove(fi_addr_t peer) {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& each) { return each.at == peer; });
  forget_fabric_address(found->name);
  peers_.erase(found);
  fi_av_remove(addresses_, &peer, 1, 0);
}

ssize_t FabricPort::receive(std::byte* buffer, size_t bytes, fid_mr* region,
                            FabricOperation& operation, Lane lane) {
  void* const descriptor = region == nullptr ? nullptr : fi_mr_desc(region);
  if (lane == Lane::long_messages) {
    return fi_trecv(endpoint_, buffer, bytes, descriptor, FI_ADDR_UNSPEC, kLongTag, 0,
                    &operation.context);
  }
  return fi_recv(endpoint_, buffer, bytes, descriptor, FI_ADDR_UNSPEC, &operation.context);
}

ssize_t FabricPort::send(fi_addr_t to, const std::byte* buffer, size_t bytes, fid_mr* region,
                         FabricOperation& operation, Lane lane) {
  void* const descriptor = region == nullptr ? nullptr : fi_mr_desc(region);
  if (lane == Lane::long_messages) {
    return fi_tsend(endpoint_, buffer, bytes, descriptor, to, kLongTag, &operation.context);
  }
  return fi_send(endpoint_, buffer, bytes, descriptor, to, &operation.context);
}

ssize_t FabricPort::write(fi_addr_t to, const std::byte* from, size_t bytes, fid_mr* region,
                          const RemoteMemory& target, uint64_t data, FabricOperation& operation) {
  void* const descriptor = region == nullptr ? nullptr : fi_mr_desc(region);
  if (rail_.tells_by_message()) {
    return fi_write(endpoint_, from, bytes, descriptor, to, target.address, target.key,
                    &operation.context);
  }
  return fi_writedata(endpoint_, from, bytes, descriptor, data, to, target.address, target.key,
                      &operation.context);
}

ssize_t FabricPort::reap(Completion* completions, size_t most) {
  constexpr size_t kBatch = 16;
  std::array<fi_cq_data_entry, kBatch> entries;
  const ssize_t count = fi_cq_read(queue_, entries.data(), std::min(most, kBatch));
  if (count == -FI_EAGAIN) return 0;
  if (count == -FI_EAVAIL) {
    fi_cq_err_entry failure{};
    const ssize_t read = fi_cq_readerr(queue_, &failure, 0);
    if (read == -FI_EAGAIN) return 0;
    if (read < 0) return read;
    completions[0] = {static_cast<FabricOperation*>(failure.op_context), 0, 0,
                      failure.err == 0 ? FI_EOTHER : failure.err};
    return 1;
  }
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_data_entry& entry = entries[static_cast<size_t>(i)];
    const bool written = (entry.flags & FI_REMOTE_CQ_DATA) != 0 && (entry.flags & FI_RECV) == 0;
    completions[i] = {written ? nullptr : static_cast<FabricOperation*>(entry.op_context), entry.len,
                      entry.data, 0};
  }
  return count;
}

bool FabricPort::may_wait() {
  if (wait_ != nullptr) return fi_wait(wait_, 0) == -FI_ETIMEDOUT;
  fid* const waited = &queue_->fid;
  return fi_trywait(rail_.fabric(), const_cast<fid**>(&waited), 1) == 0;
}

}  // namespace nezha::transport
