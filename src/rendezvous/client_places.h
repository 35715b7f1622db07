// ClientPlaces: who has one of the places of a store's server, and who leaves when there is none.
//
// Contract: one thread; knows no sockets. A client is a stranger until it has asked something that was
// in order. Strangers make room, the oldest first: a rank asks as soon as it has connected. Who has asked
// keeps its place, however long it waits. One address never has all places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/store_table.h"

namespace nezha::rendezvous {

class ClientPlaces {
 public:
  ClientPlaces(size_t most, size_t most_of_address) : most_(most), most_of_address_(most_of_address) {}

  // Whether somebody from `address` can be taken in. Sets *leaves when that client has to leave first.
  bool has_room(const std::string& address, std::optional<ClientId>* leaves) const;
  // Numbers grow: who came later has a higher one. Where memory runs out (std::bad_alloc), remove() takes
  // back what was done.
  void add(ClientId id, const std::string& address);
  // It is a stranger no more.
  void trust(ClientId id);
  bool is_trusted(ClientId id) const;
  std::optional<ClientId> oldest_stranger() const;
  void remove(ClientId id);

 private:
  struct Address {
    size_t clients = 0;
    std::set<ClientId> strangers;
  };
  struct Place {
    std::string address;
    bool trusted = false;
  };

  const size_t most_;
  const size_t most_of_address_;
  std::map<ClientId, Place> places_;
  std::map<std::string, Address> addresses_;
  std::set<ClientId> strangers_;
};

}  // namespace nezha::rendezvous
