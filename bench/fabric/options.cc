#include "options.h"

#include <getopt.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace nezha::bench {
namespace {

constexpr uint64_t kWindowMax = 1024;      // kSlotBits of phases.cc
constexpr uint64_t kVerifiedMax = 1 << 20;  // their rounds are told apart by 22 bits
constexpr uint64_t kMemoryMax = uint64_t{4} << 30;

constexpr char kHelp[] = R"(raw_fabric: what plain libfabric reaches between two processes,
with which Nezha's rails over libfabric are compared.

  raw_fabric                                       both processes, over TCP on this host
  raw_fabric --provider shm --size 1M --json       through shared memory, for a program to read
  raw_fabric --provider 'verbs;ofi_rxm' --address 10.1.0.2 --peer-address 10.1.0.1
  raw_fabric --listen 10.1.0.2:7000                one half on each of two hosts,
  raw_fabric --connect 10.1.0.2:7000               with the same options on both

  1. check: every byte of every write is compared at the receiver when its remote completion arrives
  2. rate: fi_writedata, `window` at a time, until the receiver has seen the last remote completion
  3. latency of 8 bytes, half a round trip, by fi_writedata with remote completion and by fi_send
Rates and latencies are medians over `repeats`, with the least and the largest. Both sides poll and yield.

  --provider NAME       libfabric provider that serves reliable datagrams with RMA [tcp;ofi_rxm]
                        net, tcp;ofi_rxm, shm, verbs;ofi_rxm; `fi_info -t FI_EP_RDM` lists this host's
  --address IP          address of this side (without --listen/--connect: of the receiver); picks the
                        device. shm takes none.
  --peer-address IP     address of the sender, where one command starts both
  --size BYTES          bytes per write, K, M and G allowed [256K]
  --window N            writes under way at once, 1 to 1024 [8]
  --iterations N        writes per repeat [1000]
  --verify N            writes that are checked [four windows]
  --round-trips N       round trips per repeat [500]
  --repeats N           [5]
  --both-ways           also the rate of both directions at once, which is what an allreduce of two does,
                        and the same with what arrived added to other memory
  --timeout SECONDS     give up when nothing has completed for so long [20]
  --json                one JSON object instead of a table
  --listen [HOST:]PORT, --connect HOST:PORT   the TCP connection over which the two halves meet

Exit status: 0 measured; 1 an error of libfabric, of the peer, or a byte that differs; 2 wrong usage;
3 nothing moved for --timeout seconds.
)";

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "raw_fabric: %s; raw_fabric --help explains\n", why.c_str());
  std::exit(2);
}

uint64_t parse_number(const char* option, const char* text, uint64_t low, uint64_t high) {
  char* end = nullptr;
  errno = 0;
  uint64_t value = std::strtoull(text, &end, 10);
  const bool digits = text[0] >= '0' && text[0] <= '9' && errno == 0;
  int shift = 0;
  if (*end == 'K') shift = 10;
  if (*end == 'M') shift = 20;
  if (*end == 'G') shift = 30;
  if (shift != 0) ++end;
  if (!digits || *end != '\0' || value > (high >> shift) || (value << shift) < low) {
    refuse(std::string("--") + option + " " + text + ": a whole number from " + std::to_string(low) +
           " to " + std::to_string(high) + " is accepted (K, M, G allowed)");
  }
  return value << shift;
}

double parse_seconds(const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0.1 && value <= 86400)) {
    refuse(std::string("--timeout ") + text + ": seconds from 0.1 to 86400 are accepted");
  }
  return value;
}

void parse_meeting(Options& options, const char* option, const std::string& text, bool needs_host) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos && needs_host) refuse("--connect " + text + ": HOST:PORT is accepted");
  options.meet_host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  options.meet_port = static_cast<uint16_t>(parse_number(option, port.c_str(), 1, 65535));
}

void check(const Options& options) {
  if (options.size * options.window > kMemoryMax) {
    refuse("--size times --window is above 4 GiB, all of which would be registered");
  }
  if (options.role != Role::both && !options.peer_address.empty()) {
    refuse("--peer-address is for one command that starts both sides; the other half says --address");
  }
  if (options.provider.starts_with("shm") && !options.address.empty()) {
    refuse("--provider shm takes no --address: both sides would claim one name");
  }
}

void apply(Options& options, const char* name, const char* value) {
  const std::string option = name;
  if (option == "provider") options.provider = value;
  if (option == "address") options.address = value;
  if (option == "peer-address") options.peer_address = value;
  if (option == "size") options.size = parse_number(name, value, 1, uint64_t{1} << 30);
  if (option == "window") options.window = parse_number(name, value, 1, kWindowMax);
  if (option == "iterations") options.iterations = parse_number(name, value, 1, INT_MAX);
  if (option == "verify") options.verified = parse_number(name, value, 1, kVerifiedMax);
  if (option == "round-trips") options.round_trips = parse_number(name, value, 1, INT_MAX);
  if (option == "repeats") options.repeats = parse_number(name, value, 1, 1000);
  if (option == "timeout") options.timeout_s = parse_seconds(value);
  if (option == "both-ways") options.both_ways = true;
  if (option == "json") options.json = true;
  if (option == "listen") {
    options.role = Role::server;
    parse_meeting(options, name, value, false);
  }
  if (option == "connect") {
    options.role = Role::client;
    parse_meeting(options, name, value, true);
  }
}

}  // namespace

Options parse_options(int count, char** words) {
  static const option known[] = {
      {"provider", required_argument, nullptr, 0},    {"address", required_argument, nullptr, 0},
      {"peer-address", required_argument, nullptr, 0}, {"size", required_argument, nullptr, 0},
      {"window", required_argument, nullptr, 0},      {"iterations", required_argument, nullptr, 0},
      {"verify", required_argument, nullptr, 0},      {"round-trips", required_argument, nullptr, 0},
      {"repeats", required_argument, nullptr, 0},     {"timeout", required_argument, nullptr, 0},
      {"both-ways", no_argument, nullptr, 0},
      {"json", no_argument, nullptr, 0},              {"listen", required_argument, nullptr, 0},
      {"connect", required_argument, nullptr, 0},     {"help", no_argument, nullptr, 'h'},
      {nullptr, 0, nullptr, 0}};
  Options options;
  int index = 0;
  for (int found; (found = getopt_long(count, words, "h", known, &index)) != -1;) {
    if (found == 'h') {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (found != 0) refuse("that option is not known");
    apply(options, known[index].name, optarg);
  }
  if (optind < count) refuse(std::string("'") + words[optind] + "' is not an option");
  if (options.verified == 0) options.verified = 4 * options.window;
  check(options);
  return options;
}

}  // namespace nezha::bench
