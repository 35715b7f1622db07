#include "aggregation/client/topology_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/interrupt.h"
#include "base/socket_address.h"
#include "transport/rail_socket.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

class TopologyClient {
 public:
  explicit TopologyClient(const TopologyRequest& request)
      : request_(request), deadline_(system_clock().now() + request.timeout) {}

  Result<std::string> fetch() {
    const bool is_v6 = request_.address.find(':') != std::string::npos;
    auto fd = transport::dial({is_v6 ? "::" : "0.0.0.0", request_.device}, request_.address,
                              request_.port);
    if (!fd) return lost(fd.status().message());
    fd_ = std::move(*fd);
    NEZHA_RETURN_IF_ERROR(wait(POLLOUT));
    if (const int number = transport::dial_error(fd_.get()); number != 0) {
      return lost(std::strerror(number));
    }
    NEZHA_RETURN_IF_ERROR(authenticate());
    return read();
  }

  std::string my_address() const { return numeric_host(local_address(fd_.get()).get()); }

 private:
  Status lost(const std::string& why) const {
    return error(Code::peer_lost, "aggregation node %s, port %u: %s", request_.address.c_str(),
                 static_cast<unsigned>(request_.port), why.c_str());
  }

  Status wait(short events) const {
    while (true) {
      const Nanoseconds left = deadline_ - system_clock().now();
      if (left <= 0 || interrupted()) {
        return error(Code::timed_out, "aggregation node %s, port %u did not send its topology within %g "
                     "s; check that a node runs there and that no firewall is between",
                     request_.address.c_str(), static_cast<unsigned>(request_.port),
                     static_cast<double>(request_.timeout) / kSecond);
      }
      pollfd waiting{fd_.get(), events, 0};
      const Nanoseconds piece = end_of_piece(system_clock(), deadline_) - system_clock().now();
      const auto patience =
          static_cast<int>(std::clamp<Nanoseconds>(piece / kMillisecond + 1, 1, 1000));
      if (poll(&waiting, 1, patience) > 0) return Status::ok();
    }
  }

  // So short that the kernel takes all of it.
  Status send_all(std::span<const std::byte> bytes) const {
    if (send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size())) {
      return Status::ok();
    }
    return lost(std::strerror(errno));
  }

  // Both sides prove that they hold the job's key: rank 0 of two asks, and rank 1 answers.
  Status authenticate() const {
    auto nonce = wire::random_nonce();
    if (!nonce) return nonce.status();
    Ticket ticket{request_.job.job, 0, 1, 0, 0, 0};
    ticket.nonce = wire::load_le<uint64_t>(nonce->data());
    NEZHA_RETURN_IF_ERROR(send_all(make_ticket(ticket, request_.job.key)));
    wire::Hello hello;
    hello.world_size = 2;
    hello.acceptor_rank = 1;
    hello.nonce = *nonce;
    std::array<std::byte, wire::kHelloBytes> bytes;
    wire::encode(hello, bytes);
    NEZHA_RETURN_IF_ERROR(send_all(bytes));
    std::array<std::byte, wire::kChallengeBytes> challenge;
    NEZHA_RETURN_IF_ERROR(receive_all(challenge));
    wire::Nonce theirs;
    const wire::Refusal why = wire::verify_challenge(request_.job.key, hello, challenge, &theirs);
    if (why != wire::Refusal::none) return lost("the node refused: " + std::string(wire::reason_of(why)));
    std::array<std::byte, wire::kProofBytes> proof;
    wire::make_proof(request_.job.key, hello, theirs, proof);
    return send_all(proof);
  }

  Status receive_all(std::span<std::byte> all) const {
    for (size_t have = 0; have < all.size();) {
      NEZHA_RETURN_IF_ERROR(wait(POLLIN));
      const ssize_t got = recv(fd_.get(), all.data() + have, all.size() - have, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) return lost(std::strerror(errno));
      if (got == 0) {
        return lost("the connection was closed during authentication; check that both ends have the same "
                    "key, and the node's log");
      }
      have += static_cast<size_t>(got);
    }
    return Status::ok();
  }

  Result<std::string> read() const {
    constexpr size_t kMost = sizeof(uint32_t) + kTopologyBytesMax;
    std::string text;
    std::array<char, 4096> piece;
    while (true) {
      NEZHA_RETURN_IF_ERROR(wait(POLLIN));
      const ssize_t got = recv(fd_.get(), piece.data(), piece.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) return lost(std::strerror(errno));
      if (got == 0) break;
      text.append(piece.data(), static_cast<size_t>(got));
      if (text.size() > kMost) {
        return lost("the node sent more than the " + std::to_string(kMost) + " bytes that a topology may "
                    "have; check that it is of this version");
      }
    }
    // A node that does not accept the proof closes the connection, too.
    if (text.size() < sizeof(uint32_t)) {
      return lost("the connection was closed before the topology came; check that both ends have the "
                  "same key, and the node's log");
    }
    const auto length = wire::load_le<uint32_t>(reinterpret_cast<const std::byte*>(text.data()));
    if (length != text.size() - sizeof(uint32_t)) {
      return lost("the connection was closed after " + std::to_string(text.size() - sizeof(uint32_t)) +
                  " of the topology's " + std::to_string(length) + " bytes; check the node's log");
    }
    return text.substr(sizeof(uint32_t));
  }

  const TopologyRequest& request_;
  const Nanoseconds deadline_;
  Descriptor fd_;
};

}  // namespace

Result<Topology> fetch_topology(const TopologyRequest& request, std::string* my_address) {
  TopologyClient client(request);
  auto text = client.fetch();
  if (!text) return text.status();
  auto topology = parse_topology(*text);
  if (!topology) return topology.status();
  for (TopologyNode& node : topology->nodes) {
    if (node.address == "0.0.0.0" || node.address == "::") node.address = request.address;
  }
  if (my_address != nullptr) *my_address = client.my_address();
  return topology;
}

}  // namespace nezha::aggregation
