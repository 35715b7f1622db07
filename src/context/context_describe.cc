// Context: what it tells about itself.
#include <algorithm>
#include <array>
#include <functional>

#include "base/json.h"
#include "context/context.h"

namespace nezha::context {

std::string Context::address_of(size_t rail) const {
  const auto& placed = engine_->placed_rails();
  const auto found = placed.find(static_cast<int>(rail));
  if (found == placed.end()) return rails_[rail].address;
  BlobReader reader(found->second);
  transport::RailAddress address;
  return transport::read(reader, &address) ? address.address : "";
}

std::string Context::rails_json() {
  const progress::Loop::Visit visit(*loop_);
  JsonWriter json;
  json.begin_object().key("rails").begin_array();
  const engine::RailDivider::Snapshots snapshots = engine_->rails();
  for (size_t rail = 0; rail < rails_.size() && world_size_ > 1; ++rail) {
    transport::ConnectionCounters sum;
    std::array<uint64_t, engine::kChosenByNames.size()> chosen{};
    uint64_t backlog = 0;
    json.begin_object().field("name", rails_[rail].name).field("device", rails_[rail].name);
    json.field("address", address_of(rail));
    json.field("transport", rails_[rail].transport);
    json.field("provider", rails_[rail].variant);
    json.field("mtu", rails_[rail].mtu);
    json.field("rate_bytes_per_s", snapshots[rail].rate_bytes_per_s);
    json.field("rate_measured", snapshots[rail].measured);
    json.field("latency_s", snapshots[rail].latency_s);
    json.field("state", snapshots[rail].up ? "up" : "down").key("peers").begin_array();
    for (const auto& links : engine_->peers()) {
      if (links == nullptr) continue;
      for (const auto& link : links->links()) {
        if (link.connection->rail != static_cast<int>(rail)) continue;
        sum += link.connection->counters();
        sum += link.past;
        std::transform(chosen.begin(), chosen.end(), link.chosen.begin(), chosen.begin(), std::plus());
        if (link.is_up()) backlog += link.connection->backlog_bytes();
        json.begin_object().field("rank", links->peer()).field("lane", link.connection->lane);
        json.field("up", link.is_up()).field("suspect", link.health.is_suspect());
        json.field("on_probation", link.on_probation);
        json.field("in_flight_frames", link.connection->in_flight_frames());
        json.field("epoch", link.connection->epoch).field("path", link.connection->describe());
        json.field("rate_bytes_per_s", link.monitor.rate_bytes_per_s()).end_object();
      }
    }
    json.end_array().field("backlog_bytes", backlog).key("transfers").begin_object();
    for (size_t by = 0; by < chosen.size(); ++by) json.field(engine::kChosenByNames[by], chosen[by]);
    json.end_object();
    json.field("bytes_sent", sum.bytes_sent).field("bytes_received", sum.bytes_received);
    json.field("shm_bytes_sent", sum.shm_bytes_sent);
    json.field("shm_bytes_received", sum.shm_bytes_received).end_object();
  }
  json.end_array().key("left_out").begin_array();
  for (const std::string& sentence : left_out_) json.value(sentence);
  json.end_array().end_object();
  return json.take();
}

std::string Context::stats_json() {
  const progress::Loop::Visit visit(*loop_);
  transport::ConnectionCounters sum;
  for (const auto& links : engine_->peers()) {
    if (links == nullptr) continue;
    for (const auto& link : links->links()) {
      sum += link.connection->counters();
      sum += link.past;
    }
  }
  JsonWriter json;
  const engine::EngineCounters done = engine_->counters();
  json.begin_object().field("operations_begun", done.operations).key("operations").begin_array();
  engine_->profile().each([&](Collective kind, uint64_t bytes_max,
                              const engine::OperationProfile::Row& row) {
    json.begin_object().field("collective", name_of(kind)).field("bytes_max", bytes_max);
    json.field("count", row.count).field("bytes", row.bytes);
    json.field("seconds", static_cast<double>(row.time) / kSecond).end_object();
  });
  json.end_array();
  const engine::GateCounters& gate = done.gate;
  json.field("messages_gated", gate.messages).field("messages_waited", gate.waited);
  json.field("messages_diverted", gate.diverted);
  json.field("reservations_requested", gate.asked.requests);
  json.field("reservations_refused", gate.asked.refusals);
  json.field("authentication", authentication_);
  json.field("retransmitted", done.retransmitted);
  json.field("endpoints_lost", done.connections_lost);
  const engine::SupervisorCounters& care = done.connections;
  json.field("links_suspected", care.suspected).field("links_recovered", care.recovered);
  json.field("links_joined", care.joined).field("dials", care.dials);
  json.field("hedged", care.hedged).field("reconciled", care.reconciled);
  json.field("heartbeats", care.beats);
  json.field("frames_sent", sum.frames_sent).field("frames_received", sum.frames_received);
  json.field("acks_sent", sum.acks_sent).field("send_calls", sum.send_calls);
  json.field("receive_calls", sum.receive_calls).field("polls", loop_->counters().polls);
  json.field("sleeps", loop_->counters().sleeps);
  json.field("handovers", loop_->counters().handovers);
  json.field("buffer_allocations", done.buffer_allocations);
  json.field("buffer_bytes_in_use", done.buffer_bytes_in_use);
  const memory::HostMemory* const memory = engine_->memory();
  const memory::Traffic traffic = memory != nullptr ? memory->traffic() : memory::Traffic();
  json.field("memory_ranks", memory != nullptr ? memory->ranks() : 0);
  json.field("memory_bytes_sent", traffic.put).field("memory_bytes_received", traffic.taken);
  json.key("host_of").begin_array();
  for (const int host : host_of_) json.value(host);
  json.end_array();
  if (aggregation_ != nullptr) {
    json.key("aggregation").begin_object();
    aggregation_->write(json);
    json.end_object();
  }
  return json.end_object().take();
}

std::string Context::flight_json() {
  const progress::Loop::Visit visit(*loop_);
  return flight_dump_->json("call");
}

Result<std::string> Context::dump_flight(const std::string& path) {
  return flight_dump_->write(flight_json(), path);
}

}  // namespace nezha::context
