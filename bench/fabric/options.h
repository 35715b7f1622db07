// What the user asked raw_fabric for. Parsed once, before there are threads; a mistake ends the program
// with exit status 2 and a line that says what is accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nezha::bench {

enum class Role { both, server, client };

struct Options {
  std::string provider = "tcp;ofi_rxm";
  std::string address;       // of the receiving side where `both` runs, of this side otherwise
  std::string peer_address;  // of the sending side, `both` only
  Role role = Role::both;
  std::string meet_host;  // side channel of server and client
  uint16_t meet_port = 0;
  uint64_t size = 256 << 10;
  uint64_t window = 8;
  uint64_t iterations = 1000;
  uint64_t verified = 0;  // 0: four windows
  uint64_t round_trips = 500;
  uint64_t repeats = 5;
  double timeout_s = 20;
  bool both_ways = false;
  bool json = false;
};

Options parse_options(int count, char** words);

}  // namespace nezha::bench
