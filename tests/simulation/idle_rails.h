// IdleRails: finds rails that stand idle while transfers wait that they could carry.
//
// Contract: of one SimWorld, whose `watch` it is part of; one thread. A rail that is up, as fast as
// it ever was, and has had nothing to carry for longer than kPatience, during all of which transfers
// to the same peer waited for a rail, is wrong: what waits may always choose again.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "simulation/sim_world.h"

namespace nezha::simulation {

class IdleRails {
 public:
  static constexpr Nanoseconds kPatience = 1 * kSecond;

  explicit IdleRails(SimWorld& world) : world_(world) {
    world_.watch = [this](int rank) { look(rank); };
  }
  ~IdleRails() { world_.watch = nullptr; }
  IdleRails(const IdleRails&) = delete;
  IdleRails& operator=(const IdleRails&) = delete;

  const std::string& wrong() const { return wrong_; }  // "" or the first that was found

 private:
  void look(int rank);

  SimWorld& world_;
  std::map<std::tuple<int, int, int>, Nanoseconds> since_;  // by rank, peer and rail
  std::string wrong_;
};

}  // namespace nezha::simulation
