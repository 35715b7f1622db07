#include "transport/tcp/tcp_connect.h"

#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_wire.h"

namespace nezha::transport {
namespace {

const PeerAddress& rank_of(const MeshRequest& request, int rank) {
  return request.ranks[static_cast<size_t>(rank)];
}

}  // namespace

TrialIdentity identity_of(const MeshRequest& request) {
  return {request.rank, static_cast<uint32_t>(request.ranks.size()), request.job, request.secret,
          request.rail_counts(), static_cast<uint16_t>(request.streams_per_rail),
          request.tls ? TlsKey::create(request.secret) : nullptr, request.integrity && !request.tls,
          request.ticket};
}

Result<Descriptor> dial_rail(const MeshRequest& request, int peer, int rail, int peer_rail) {
  const PeerAddress& me = rank_of(request, request.rank);
  const PeerAddress& other = rank_of(request, peer);
  const RailAddress& mine = me.rails[static_cast<size_t>(rail)];
  const RailAddress& theirs = other.rails[static_cast<size_t>(peer_rail)];
  const bool same_host = me.host == other.host;
  return dial({mine.address, same_host ? "" : mine.name}, theirs.address,
              same_host ? ports_of(theirs).local : ports_of(theirs).device);
}

Result<std::unique_ptr<Connection>> make_connection(const MeshRequest& request, progress::Loop& loop,
                                                ConnectionEvents& events, TcpTrial& trial) {
  const TcpWireOptions options{request.send_buffer_bytes, request.notsent_lowat_bytes,
                               request.congestion_control};
  const auto rail = static_cast<size_t>(trial.rail());
  const std::string& device = rank_of(request, request.rank).rails[rail].name;
  const std::string name = describe_connection(trial.fd()) + " (" + device + ")";
  auto connection = std::make_unique<Connection>(
      events, std::make_unique<TcpWire>(loop, trial.release_stream(), name, options),
      ConnectionOptions{request.payload_checksum, request.control_frames_max});
  identify(*connection, {trial.peer(), trial.rail(), trial.peer_rail(), trial.lane()}, trial.epoch(),
           trial.latency_s());
  NEZHA_RETURN_IF_ERROR(connection->start());
  return connection;
}

}  // namespace nezha::transport
