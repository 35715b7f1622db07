#include "rendezvous/client_places.h"

namespace nezha::rendezvous {

bool ClientPlaces::has_room(const std::string& address, std::optional<ClientId>* leaves) const {
  const auto found = addresses_.find(address);
  const bool address_is_full = found != addresses_.end() && found->second.clients >= most_of_address_;
  if (!address_is_full && places_.size() < most_) return true;
  const std::set<ClientId>& strangers = address_is_full ? found->second.strangers : strangers_;
  if (strangers.empty()) return false;
  *leaves = *strangers.begin();
  return true;
}

void ClientPlaces::add(ClientId id, const std::string& address) {
  places_[id] = {address, false};
  Address& of = addresses_[address];
  ++of.clients;
  of.strangers.insert(id);
  strangers_.insert(id);
}

void ClientPlaces::trust(ClientId id) {
  const auto place = places_.find(id);
  if (place == places_.end() || place->second.trusted) return;
  place->second.trusted = true;
  addresses_[place->second.address].strangers.erase(id);
  strangers_.erase(id);
}

bool ClientPlaces::is_trusted(ClientId id) const {
  const auto place = places_.find(id);
  return place != places_.end() && place->second.trusted;
}

std::optional<ClientId> ClientPlaces::oldest_stranger() const {
  if (strangers_.empty()) return std::nullopt;
  return *strangers_.begin();
}

void ClientPlaces::remove(ClientId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  if (const auto of = addresses_.find(place->second.address); of != addresses_.end()) {
    of->second.strangers.erase(id);
    if (--of->second.clients == 0) addresses_.erase(of);
  }
  strangers_.erase(id);
  places_.erase(place);
}

}  // namespace nezha::rendezvous
