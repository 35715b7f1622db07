#include "context/exchange.h"

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/secret.h"
#include "context/identity.h"
#include "rails/rail_selector.h"
#include "rendezvous/address.h"
#include "rendezvous/socket.h"

namespace nezha::context {
namespace {

constexpr Nanoseconds kReach = 3 * kSecond;
constexpr size_t kAddressesMax = 16;
// Rank 0 sends lines, and zeros up to this length. 16 addresses are less than half of it.
constexpr size_t kOfferBytes = 2048;
constexpr std::string_view kFirstLine = "nezha rendezvous 1";
constexpr std::string_view kNoSecret = "-";

// One byte for each address; 1: this rank reaches it.
using Reached = std::array<char, kAddressesMax>;

struct Offer {
  HiddenText secret;
  std::vector<std::string> addresses;  // "tcp://10.0.0.1:40001"
};

Status failed(const Exchange& exchange, const char* function, int result) {
  const bool is_code = result > 0 && result <= static_cast<int>(Code::internal);
  return error(is_code ? static_cast<Code>(result) : Code::internal,
               "rank %d: %s of the program's own exchange failed with %d", exchange.rank, function,
               result);
}

// A socket on a free port of each address of this host, the likeliest first.
Result<std::vector<Descriptor>> listen_everywhere(const Config& config, WipedText* lines) {
  auto devices = rails::list_devices();
  if (!devices) return devices.status();
  auto choices = rails::select_rails(*devices, config.rails);
  if (!choices) return choices.status();
  const auto rank_of = [](const rails::RailChoice& choice) {
    return choice.usable ? 0 : choice.device.loopback ? 2 : 1;
  };
  std::stable_sort(choices->begin(), choices->end(),
                   [&](const auto& one, const auto& other) { return rank_of(one) < rank_of(other); });
  std::vector<Descriptor> listeners;
  for (const rails::RailChoice& choice : *choices) {
    const std::string& address = choice.device.address;
    // A link-local address means something else on every host.
    if (address.empty() || address.starts_with("fe80")) continue;
    if (listeners.size() == kAddressesMax) break;
    auto listener = rendezvous::listen_on(address, 0);
    if (!listener) continue;  // the address has gone, or is not ours to use
    *lines += "tcp://" + rendezvous::host_and_port(address, rendezvous::port_of(*listener)) + "\n";
    listeners.push_back(std::move(*listener));
  }
  return listeners;
}

Result<std::vector<Descriptor>> make_offer(const Config& config, WipedText* offer) {
  auto configured = configured_secret(config);
  if (!configured) return configured.status();
  WipedText secret(kNoSecret);
  if (!*configured) {
    Secret fresh;
    NEZHA_RETURN_IF_ERROR(fill_with_random({fresh.data(), fresh.size()}, "the job's secret"));
    secret.clear();
    for (const std::byte byte : fresh) put_hex(&secret, byte);
  }
  offer->append(kFirstLine).append("\n").append(secret).append("\n");
  return listen_everywhere(config, offer);
}

std::string_view next_line(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

std::optional<Offer> read_offer(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  Offer offer;
  if (next_line(&text) != kFirstLine) return std::nullopt;
  const std::string_view secret = next_line(&text);
  if (secret != kNoSecret) offer.secret = secret;
  while (!text.empty() && offer.addresses.size() < kAddressesMax) {
    offer.addresses.emplace_back(next_line(&text));
  }
  return offer;
}

bool is_reached(const std::string& address) {
  auto place = rendezvous::parse_store_address(address, false);
  if (!place || place->kind != rendezvous::StoreKind::tcp) return false;
  const Nanoseconds deadline = system_clock().now() + kReach;
  return static_cast<bool>(rendezvous::connect_to(place->host, place->port, deadline));
}

// All at once: one that does not answer keeps the others waiting no longer.
Reached reach(const std::vector<std::string>& addresses) {
  std::vector<std::future<bool>> answers;
  for (const std::string& address : addresses) {
    answers.push_back(std::async(std::launch::async, is_reached, address));
  }
  Reached reached{};
  for (size_t i = 0; i < answers.size(); ++i) reached[i] = answers[i].get() ? 1 : 0;
  return reached;
}

// The first that all ranks reach.
Result<std::string> choose(const std::vector<std::string>& addresses,
                           const std::vector<Reached>& reached) {
  std::string ways;
  for (size_t i = 0; i < addresses.size(); ++i) {
    std::string without;
    for (size_t rank = 0; rank < reached.size(); ++rank) {
      if (reached[rank][i] != 1) without += (without.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (without.empty()) return addresses[i];
    ways += (ways.empty() ? "" : "; ") + addresses[i] + " not from rank " + without;
  }
  return error(Code::invalid_argument, "no address of rank 0's host can be reached by all ranks: %s. "
               "Open a port between the hosts, or start with a store that all of them reach",
               ways.empty() ? "it has none" : ways.c_str());
}

}  // namespace

Result<Exchanged> meet(const Exchange& exchange, const Config& config) {
  if (exchange.broadcast == nullptr || exchange.all_gather == nullptr) {
    return error(Code::invalid_argument, "rank %d: an exchange needs broadcast and all_gather",
                 exchange.rank);
  }
  // A rank that fails takes part to the end, because the others would wait for it.
  Result<std::vector<Descriptor>> listeners{std::vector<Descriptor>()};
  WipedText record;
  if (exchange.rank == 0) {
    listeners = make_offer(config, &record);
    if (!listeners) record.clear();
  }
  record.resize(kOfferBytes, '\0');
  if (const int result = exchange.broadcast(exchange.user, record.data(), record.size()); result != 0) {
    return failed(exchange, "broadcast", result);
  }
  const std::optional<Offer> offer = read_offer(record);
  Reached mine{};
  if (offer && exchange.rank != 0) mine = reach(offer->addresses);
  if (exchange.rank == 0) mine.fill(1);
  std::vector<Reached> everybody(static_cast<size_t>(exchange.world_size));
  if (const int result = exchange.all_gather(exchange.user, mine.data(), everybody.data(), mine.size());
      result != 0) {
    return failed(exchange, "all_gather", result);
  }
  if (!listeners) return listeners.status();
  if (!offer) {
    return error(Code::invalid_argument, "rank %d: rank 0 sent no addresses through the program's "
                 "exchange: its error says why, or it has another version of Nezha", exchange.rank);
  }
  auto store = choose(offer->addresses, everybody);
  if (!store) return store.status();
  return Exchanged{std::move(*store), offer->secret};
}

}  // namespace nezha::context
