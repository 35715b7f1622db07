#include "context/host_wireup.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "base/hmac.h"
#include "base/interrupt.h"
#include "transport/shm/shm_socket.h"
#include "wire/little_endian.h"

namespace nezha::context {
namespace {

using transport::MeshRequest;
using transport::ShmName;

constexpr Nanoseconds kBetweenTries = 1 * kMillisecond;
constexpr std::byte kYes{1};
constexpr size_t kCallersMax = 64;  // who have not said yet who they are

// With every descriptor that is passed: whose it is, and that a rank of this run passes it.
struct Note {
  std::array<std::byte, 8 + sizeof(wire::Mac)> bytes;
};

class HostWireup {
 public:
  HostWireup(const MeshRequest& request, const std::vector<int>& apart, const Clock& clock,
             Nanoseconds deadline)
      : request_(request), apart_(apart), clock_(clock), deadline_(deadline) {
    host_.ranks = ranks_of_host(request);
    const auto own = std::find(host_.ranks.begin(), host_.ranks.end(), request.rank);
    host_.index = static_cast<int>(own - host_.ranks.begin());
    host_.bells.resize(host_.ranks.size());
  }

  Result<memory::Host> run() {
    auto bell = memory::make_bell();
    if (!bell) return bell.status();
    own_bell() = std::move(bell->rings);  // until all have it
    NEZHA_RETURN_IF_ERROR(host_.index == 0 ? lead() : join());
    own_bell() = std::move(bell->hears);
    return std::move(host_);
  }

 private:
  size_t size() const { return host_.ranks.size(); }
  Descriptor& own_bell() { return host_.bells[static_cast<size_t>(host_.index)]; }
  wire::Mac mac_of(const char* what, size_t index) const {
    const std::string text = std::string("memory of a host: ") + what + " " +
                             std::to_string(request_.job) + " " + std::to_string(host_.ranks[0]) + " " +
                             std::to_string(index);
    return wire::channel_mac_of(request_.secret, text);
  }
  ShmName name() const {
    const wire::Mac mac = mac_of("name", 0);
    ShmName name;
    std::memcpy(name.data(), mac.data(), name.size());
    return name;
  }
  Note note_of(const char* what, size_t index) const {
    Note note;
    const wire::Mac mac = mac_of(what, index);
    wire::store_le(note.bytes.data(), uint64_t{index});
    std::memcpy(&note.bytes[8], mac.data(), mac.size());
    return note;
  }
  // The index in a note with a right token; the number of ranks where there is none.
  size_t index_in(const Note& note, const char* what) const {
    const auto index = wire::load_le<uint64_t>(note.bytes.data());
    if (index >= size()) return size();
    return same_mac(mac_of(what, index), std::span(note.bytes).subspan(8)) ? index : size();
  }
  // Something is there, or the other end is gone, of one of them; false: neither in time.
  bool await(std::span<pollfd> polled, Nanoseconds until) const {
    while (clock_.now() < until && !interrupted()) {
      const Nanoseconds piece = end_of_piece(clock_, until) - clock_.now();
      const int patience_ms = static_cast<int>(std::max<Nanoseconds>(piece, 0) / kMillisecond) + 1;
      if (::poll(polled.data(), polled.size(), patience_ms) > 0) return true;
    }
    return false;
  }
  bool await(const Descriptor& socket, Nanoseconds until) const {
    pollfd ready{socket.get(), POLLIN, 0};
    return await({&ready, 1}, until);
  }
  bool hears_yes(const Descriptor& socket) const {
    std::byte answer{};
    return await(socket, deadline_) && recv(socket.get(), &answer, 1, MSG_DONTWAIT) == 1 &&
           answer == kYes;
  }
  static bool say_yes(const Descriptor& socket) {
    return send(socket.get(), &kYes, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  }

  // ---- the lowest rank
  Status lead() {
    auto listener = transport::listen_on(name());
    if (!listener) return listener.status();
    std::vector<Descriptor> sockets(size());
    NEZHA_RETURN_IF_ERROR(gather(*listener, sockets));
    // Now that all who can come would hear of a failure, by the end of their sockets.
    if (!apart_.empty()) return shares_none_with(apart_.front());
    const bool is_world = size() == request_.ranks.size();
    auto made = memory::HostMemory::create(host_.ranks, is_world, &host_.file);
    if (!made) return made.status();
    host_.memory = std::move(*made);
    for (size_t index = 1; index < size(); ++index) {
      NEZHA_RETURN_IF_ERROR(give(sockets[index]));
    }
    for (size_t index = 1; index < size(); ++index) {
      if (!hears_yes(sockets[index])) return cannot(index);
    }
    for (size_t index = 1; index < size(); ++index) {
      if (!say_yes(sockets[index])) return cannot(index);
    }
    return Status::ok();
  }
  // Anybody of this host can call, and be silent; nobody waits for that.
  Status gather(const Descriptor& listener, std::vector<Descriptor>& sockets) {
    std::vector<pollfd> polled{{listener.get(), POLLIN, 0}};
    std::vector<Descriptor> callers;  // in `polled` behind the listener
    for (size_t missing = size() - 1 - apart_.size(); missing > 0;) {
      if (!await(polled, deadline_)) return absent(sockets);
      for (size_t i = callers.size(); i > 0; --i) {
        if (polled[i].revents == 0) continue;
        missing -= receive(std::move(callers[i - 1]), sockets) ? 1 : 0;
        forget(i, callers, polled);
      }
      if (Descriptor caller = transport::accept_at(listener)) {
        if (callers.size() == kCallersMax) forget(1, callers, polled);  // silent for longest
        polled.push_back({caller.get(), POLLIN, 0});
        callers.push_back(std::move(caller));
      }
    }
    return Status::ok();
  }
  static void forget(size_t place, std::vector<Descriptor>& callers, std::vector<pollfd>& polled) {
    callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(place) - 1);
    polled.erase(polled.begin() + static_cast<std::ptrdiff_t>(place));
  }
  // A rank of this run, by its token.
  bool receive(Descriptor socket, std::vector<Descriptor>& sockets) {
    Note note;
    Descriptor bell;
    if (!transport::receive_memory(socket, note.bytes, &bell) || !memory::is_bell(bell)) return false;
    const size_t index = index_in(note, "bell");
    if (index == 0 || index == size() || sockets[index]) return false;
    host_.bells[index] = std::move(bell);
    sockets[index] = std::move(socket);
    return true;
  }
  Status give(const Descriptor& socket) const {
    for (size_t index = 0; index < size(); ++index) {
      NEZHA_RETURN_IF_ERROR(transport::pass(socket, note_of("bell", index).bytes, host_.bells[index]));
    }
    return transport::pass(socket, note_of("memory", 0).bytes, host_.file);
  }
  Status absent(const std::vector<Descriptor>& sockets) const {
    std::string ranks;
    for (size_t index = 1; index < size(); ++index) {
      if (!sockets[index]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(host_.ranks[index]);
    }
    return error(Code::unsupported, "rank %s of this host did not come for it in time", ranks.c_str());
  }
  Status cannot(size_t index) const {
    return error(Code::unsupported, "rank %d of this host cannot use it (its log says why)",
                 host_.ranks[index]);
  }

  Status shares_none_with(int rank) const {
    return error(Code::unsupported, "rank %d of this host shares no memory with rank %d", rank,
                 request_.rank);
  }

  // ---- the others
  Status join() {
    const int leader = host_.ranks[0];
    if (std::find(apart_.begin(), apart_.end(), leader) != apart_.end()) return shares_none_with(leader);
    auto socket = transport::connect_to(name());
    while (!socket && clock_.now() < deadline_ && !interrupted()) {  // it does not listen yet
      usleep(kBetweenTries / 1000);
      socket = transport::connect_to(name());
    }
    if (!socket) return socket.status();
    const auto index = static_cast<size_t>(host_.index);
    NEZHA_RETURN_IF_ERROR(transport::pass(*socket, note_of("bell", index).bytes, own_bell()));
    for (size_t other = 0; other < size(); ++other) {
      Descriptor bell;
      if (!takes(*socket, "bell", other, &bell) || !memory::is_bell(bell)) return refused();
      if (other != index) host_.bells[other] = std::move(bell);
    }
    if (!takes(*socket, "memory", 0, &host_.file)) return refused();
    auto mapped = SealedMemory::adopt(host_.file, memory::HostMemory::bytes(size()));
    if (!mapped) return mapped.status();
    host_.memory = std::move(*mapped);
    return say_yes(*socket) && hears_yes(*socket) ? Status::ok() : refused();
  }
  bool takes(const Descriptor& socket, const char* what, size_t index, Descriptor* passed) const {
    Note note;
    return await(socket, deadline_) && transport::receive_memory(socket, note.bytes, passed) &&
           index_in(note, what) == index;
  }
  Status refused() const {
    return error(Code::unsupported, "rank %d, which makes it, or another rank of this host cannot (their "
                 "logs say why)", host_.ranks[0]);
  }

  const MeshRequest& request_;
  const std::vector<int>& apart_;
  const Clock& clock_;
  const Nanoseconds deadline_;
  memory::Host host_;
};

}  // namespace

std::vector<int> ranks_of_host(const MeshRequest& request) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < request.ranks.size(); ++rank) {
    if (request.is_same_host(static_cast<int>(rank))) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Result<memory::Host> wire_up_host(const MeshRequest& request, const std::vector<int>& apart,
                                  const Clock& clock, Nanoseconds deadline) {
  return HostWireup(request, apart, clock, deadline).run();
}

}  // namespace nezha::context
