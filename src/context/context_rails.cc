// Context: which devices become rails, what they can do, and the policies that divide work among them.
#include <algorithm>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "context/context.h"
#include "context/rail_list.h"
#include "rails/policies/interference.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::context {
namespace {

// A rail whose driver does not state a speed is taken for this until it was measured.

bool is_there(const transport::RailAddress& rail) { return !rail.is_missing(); }

}  // namespace

Status Context::choose_rails() {
  auto others = take_other_rails(config_.rails);
  if (!others) return others.status();
  if (others->tcp_wanted) NEZHA_RETURN_IF_ERROR(choose_tcp_rails(others->rest));
  for (std::string& sentence : add_other_rails(*others, &rails_)) {
    device_left_out_.push_back("rank " + std::to_string(rank_) + ": " + std::move(sentence));
  }
  if (std::any_of(rails_.begin(), rails_.end(), is_there)) return Status::ok();
  std::string why;
  for (const transport::RailAddress& rail : rails_) why += "; " + rail.name + " has no IP address";
  for (const std::string& sentence : device_left_out_) why += "; " + sentence;
  return error(Code::invalid_argument, "rank %d has no usable network device with rails='%s'%s",
               rank_, config_.rails.c_str(), why.c_str());
}

Status Context::choose_tcp_rails(const std::string& filter) {
  auto devices = rails::list_devices();
  if (!devices) return devices.status();
  auto choices = rails::select_rails(*devices, filter);
  if (!choices) return choices.status();
  for (const rails::RailChoice& choice : *choices) {
    const rails::Device& device = choice.device;
    if (choice.missing) {
      NEZHA_LOG(warn, "rails", "rank %d: %s has no IP address yet; it becomes a rail when it has one",
                rank_, device.name.c_str());
    }
    if (choice.second) continue;
    if (!choice.usable && !choice.missing) {
      device_left_out_.push_back("device " + device.name + " (" + device.address + ") of rank " +
                                 std::to_string(rank_) + " is not a rail: " + choice.reason);
    } else {
      rails_.push_back({device.name, device.address, static_cast<uint8_t>(device.prefix_length),
                        device.mtu, device.speed_bits_per_s});
      if (choice.other_address.empty()) continue;
      const auto length = static_cast<uint8_t>(choice.other_prefix_length);
      rails_.back().blob = transport::encode({{device.address, rails_.back().prefix_length, {}},
                                              {choice.other_address, length, {}}});
    }
  }
  return Status::ok();
}

// Bytes per second with which a rail begins.
double Context::rate_of(const transport::RailAddress& rail) const {
  const Calibration::Rail* measured = calibration_ ? calibration_->find(rail.name) : nullptr;
  if (measured != nullptr) return measured->bytes_per_s;
  return rail.speed_bits_per_s > 0 ? rail.speed_bits_per_s / 8 : kNominalBytesPerS;
}

// Every rank computes them from what all ranks published, and from files that are equal, so the costs are
// equal everywhere, however the caller's thread rounds.
Status Context::agree_costs() {
  const FloatMode mode;
  size_t rails = rails::kRailsMax;
  for (const transport::PeerAddress& peer : session_.ranks) {
    const auto there = std::count_if(peer.rails.begin(), peer.rails.end(), is_there);
    rails = std::min(rails, static_cast<size_t>(there));
  }
  costs_.rails = static_cast<uint32_t>(rails);
  find_hosts();
  costs_.rate_bytes_per_s = costs_.rail_bytes_per_s = 0;
  std::vector<std::string> names;
  for (const transport::RailAddress& rail : session_.ranks[0].rails) {
    if (rail.is_missing()) continue;
    const double rate = rate_of(rail);
    costs_.rate_bytes_per_s += rate;
    costs_.rail_bytes_per_s = std::max(costs_.rail_bytes_per_s, rate);
    names.push_back(rail.name);
  }
  if (!calibration_) return Status::ok();
  return about_calibration(calibration_->apply(names, &costs_));
}

// Which ranks share a host, and what a message between two of them costs: nominal or calibrated, as the
// rails' is. What a rank measures when it starts would differ from job to job, and with it the algorithm
// and the bits of sums.
void Context::find_hosts() {
  if (config_.shm != "off") {
    costs_.share_memory();
    if (calibration_ && calibration_->inside) {
      costs_.inside_bytes_per_s = calibration_->inside->bytes_per_s;
      costs_.inside_latency_s = calibration_->inside->latency_s;
    }
  }
  std::map<std::string, int> numbers;
  for (transport::PeerAddress& peer : session_.ranks) {
    host_of_.push_back(numbers.try_emplace(peer.host, static_cast<int>(numbers.size())).first->second);
    // Long names are a good part of what is kept of ranks that are never connected.
    peer.host = std::to_string(host_of_.back());
  }
}

// With the file's name in front.
Status Context::about_calibration(const Status& status) const {
  if (status.is_ok()) return status;
  return error(Code::invalid_argument, "calibration_file %s: %s", config_.calibration_file.c_str(),
               status.message().c_str());
}

Status Context::load_calibration() {
  if (config_.calibration_file.empty()) return Status::ok();
  auto json = read_input_file(expand_path(config_.calibration_file, rank_), kCalibrationBytesMax);
  if (!json) return json.status();
  auto found = parse_calibration(*json);
  if (!found) return about_calibration(found.status());
  calibration_ = std::move(*found);
  std::vector<std::string> names;
  for (const transport::RailAddress& rail : rails_) names.push_back(rail.name);
  interference_ = calibration_->interference(names);
  return Status::ok();
}

Result<std::unique_ptr<rails::Policy>> Context::make_policy() const {
  rails::PolicyOptions options;
  auto weights = parse_weights(config_.weights);
  if (!weights) return weights.status();
  options.weights = std::move(*weights);
  options.interference = interference_;
  auto policy = rails::make_policy(config_.policy, options);
  if (policy) return policy;
  return about_option("policy", FieldIndex::policy, policy.status());
}

Result<std::unique_ptr<engine::MessageGate>> Context::make_message_gate(
    const engine::PeerLinksList& peers) const {
  engine::GateOptions options;
  options.rank = rank_;
  options.world_size = world_size_;
  options.rails = static_cast<uint32_t>(rails_.size());
  options.seed = static_cast<uint64_t>(rank_) + 1;  // so that ranks do not all choose alike
  auto gate = engine::make_message_gate(config_.message_policy, options, peers);
  if (gate) return gate;
  return about_option("message_policy", FieldIndex::message_policy, gate.status());
}

// With the option and where its value stands in front.
Status Context::about_option(const char* name, FieldIndex field, const Status& status) const {
  const std::string origin(config_.origin(field));
  return error(status.code(), "configuration: %s (from %s): %s", name, origin.c_str(),
               status.message().c_str());
}

}  // namespace nezha::context
