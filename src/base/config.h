// Config: everything that can be tuned, in one table from which the struct, the parser, the
// printer, `nezha_query("config")` and docs/tuning.md are all made.
//
// Contract: a plain value; filled once by load_config, read-only and freely copied afterwards. A
// value comes from, strongest first: the code ("key=value" lines), the environment (NEZHA_*), the
// file (NEZHA_CONF_FILE, else ~/.nezha.conf), the default; origin() says which. A value that cannot
// be used is `invalid_argument` naming where it stands and what is accepted. This is the only part
// of the library that reads the environment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hidden_text.h"
#include "base/status.h"

// TEXT(name, default, check, flags, meaning), COUNT/BYTES/SECONDS(name, default, low, high, flags,
// meaning), HIDDEN(name, meaning); COUNT has a unit in front of the flags. The environment's name is
// NEZHA_ and the name in capitals. `agreed` fields must be equal on all ranks; HIDDEN ones are texts
// that are never printed.
#define NEZHA_CONFIG_FIELDS(TEXT, COUNT, BYTES, SECONDS, HIDDEN)                                   \
  TEXT(rails, "", any, 0,                                                                          \
       "Devices to use as rails: comma-separated names, prefixes, `=exact`, `^excluded` "          \
       "or CIDR (`10.1.0.0/16`). Empty: all usable ones. Without it NEZHA_SOCKET_IFNAME "          \
       "counts, and after the file GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.")                    \
  COUNT(streams_per_rail, 1, 1, 16, "connections", kAgreed,                                        \
        "TCP connections per rail and peer. More help on paths that lose packets or hash flows.")  \
  TEXT(shm, "auto", off_on_auto, kAgreed,                                                          \
       "Ranks of one host use memory that they share, on every rail and for the "                  \
       "collectives of communicators of one host. `auto` does so where it can be had; "            \
       "with `on`, ranks without it are an error.")                                                \
  TEXT(policy, "pull", any, kAgreed,                                                               \
       "How bytes are shared among rails: `pull`, `table`, `static` or `round_robin`.")            \
  TEXT(weights, "", weights, 0,                                                                    \
       "Shares of the rails for `policy=static`, in the order of the rails.")                      \
  TEXT(message_policy, "pull", any, kAgreed,                                                       \
       "Which rails a message (send, recv) takes: `pull`, those that drain, without "              \
       "waiting; `modulo`, `round_robin`, `random`, `static`, `local_dynamic`, "                   \
       "`local_dynamic_striped`, `dynamic` or `hybrid`, one message at a time on each "            \
       "rail. With these, transfers of all_to_all are messages, too.")                             \
  TEXT(algorithm, "auto", algorithm, kAgreed,                                                      \
       "Algorithm of every collective that it fits; `auto` chooses by cost for each size.")        \
  TEXT(algorithm_file, "", any, 0,                                                                 \
       "File with your own schedules for one collective, as `nezha explain --print` "              \
       "writes them. It is proved before anything runs, and its content is the same on "           \
       "all ranks. %r is the rank, %h the host.")                                                  \
  BYTES(chunk_bytes, 262144, 4096, 16777216, kAgreed,                                              \
        "Unit of pipelining and balancing: small reacts faster, large costs less CPU time.")       \
  BYTES(credit_bytes, 8388608, 65536, 1073741824, kAgreed,                                         \
        "Scratch memory that a rank grants to incoming data; at least one chunk.")                 \
  SECONDS(timeout_s, 300, 0.001, 1e9, 0,                                                           \
          "An operation that takes longer fails with `timed_out`.")                                \
  SECONDS(connect_timeout_s, 300, 0.001, 1e9, 0,                                                   \
          "Time for all ranks to meet in the store and to connect. Every 10 s rank 0 "             \
          "logs for which ranks it waits.")                                                        \
  TEXT(connect, "auto", connect, kAgreed,                                                          \
       "`eager`: all ranks connect at the start; `demand`: two ranks when one of them "            \
       "first needs the other; `auto`: eager up to 32 ranks.")                                     \
  SECONDS(probe_timeout_s, 3, 0.001, 3600, 0,                                                      \
          "Time in which a pair of rails must carry its first bytes, or the pair is not used.")    \
  SECONDS(linger_s, 2, 0, 3600, 0,                                                                 \
          "At most this long leaving waits for the last acknowledgements.")                        \
  SECONDS(outage_s, 10, 1, 1e9, 0,                                                                 \
          "A network may be silent for this long, on all rails, without an error. Then "           \
          "the ranks behind it are lost. A rank whose host says that it has ended is "             \
          "lost at once.")                                                                         \
  SECONDS(peer_deadline_s, 30, 0.5, 1e9, 0,                                                        \
          "A rank whose host answers while the rank itself says nothing is lost after this long.") \
  TEXT(quorum, "majority", quorum, kAgreed,                                                        \
       "Ranks with which `shrink()` continues in a partitioned network. `majority`: the "          \
       "part with more than half of the ranks, or half and the lowest; the others get an "         \
       "error. `none`: every part.")                                                               \
  COUNT(spin_us, 50, 0, 1000000, "us", 0,                                                           \
        "Time a waiting thread polls, yielding, before it sleeps in the kernel; not in collectives "  \
        "that take the rails longer than 2.5 ms.")                                                 \
  TEXT(hierarchy, "auto", auto_off, kAgreed,                                                       \
       "`auto`: between hosts with several ranks collectives go inside the hosts first where that is " \
       "cheaper; `off`: every rank counts as a host.")                                              \
  TEXT(host_id, "", any, 0,                                                                        \
       "Equal for ranks that count as one host, such as containers of one machine. "               \
       "Empty: by boot id, network namespace and host name.")                                      \
  TEXT(congestion_control, "", any, 0,                                                             \
       "TCP congestion control of the rails, such as `cubic`; empty: the system's.")               \
  TEXT(checksum, "off", off_on, kAgreed,                                                           \
       "`on`: CRC-32C over every payload; what was changed on the way is sent again elsewhere.")   \
  TEXT(tls, "off", off_on, kAgreed,                                                                \
       "`on`: rails are encrypted with TLS 1.3, keyed by the job's secret; costs processor time.") \
  TEXT(integrity, "off", off_on, kAgreed,                                                          \
       "`on`: every byte between ranks is authenticated with a key of its connection, "            \
       "and not encrypted. `tls=on` includes it.")                                                 \
  TEXT(cpu_affinity, "", any, 0,                                                                   \
       "Processors of this rank's one background thread, which works while no caller "             \
       "waits, such as `0-3,8`. Empty: the system chooses.")                                       \
  TEXT(table_file, "", any, 0,                                                                     \
       "File in which a rank keeps, for the next job, what policy `table` has learned. "           \
       "%r is the rank, %h the host.")                                                             \
  TEXT(calibration_file, "", any, 0,                                                               \
       "File of `nezha calibrate`: algorithms are chosen by its rates and latencies, and "         \
       "the balancer begins with them. Its content is the same on all ranks. %r is the "           \
       "rank, %h the host. Empty: what devices state.")                                            \
  TEXT(aggregator, "", node, kAgreed,                                                               \
       "Aggregation node (`nezha aggregator`) of the job. It adds up what ranks send it, "         \
       "beside the rails.")                                                                        \
  TEXT(aggregator_device, "", any, 0,                                                              \
       "Network device that leads to the aggregation node; empty: the one that the system takes.") \
  TEXT(aggregator_key_file, "", any, 0,                                                            \
       "File with the aggregation nodes' own key, closed to other users, for launchers. "          \
       "`nezha run` derives the job's key from it; the ranks never read it.")                      \
  HIDDEN(aggregator_job_key,                                                                       \
       "The job's key at the aggregation nodes, as `nezha run` or `nezha aggregator "              \
       "job-key` makes it.")                                                                       \
  TEXT(aggregator_share, "auto", share, kAgreed,                                                   \
       "Part of every all_reduce that goes to the aggregation node; `auto` learns it.")            \
  TEXT(deterministic, "off", off_on, kAgreed,                                                      \
       "`on`: floating point is added up in an order that follows from the operation and "         \
       "the number of ranks alone, never by aggregation nodes or within hosts. Results "           \
       "are the same on other hosts and rails. It is slower where ranks share a host.")            \
  TEXT(secret_file, "", any, 0,                                                                    \
       "File with the job's secret, closed to other users, such as `openssl rand -hex "            \
       "32` makes it.")                                                                            \
  HIDDEN(secret,                                                                                   \
       "The job's secret itself, as `nezha run` gives it to its ranks; what a rank starts inherits " \
       "it, so a file is safer.")                                                                  \
  TEXT(authentication, "auto", authentication, 0,                                                  \
       "Whether a job needs a secret: `required`; `auto`, on several hosts; `off`, "               \
       "never, and whoever can reach its store can join it.")                                      \
  TEXT(bind_ports, "0", ports, 0,                                                                  \
       "Ports on which rails listen; `0` is any. Every rank of a host needs two.")                 \
  TEXT(log_level, "warn", log_level, 0,                                                            \
       "Lowest level that is logged.")                                                             \
  TEXT(log_file, "", any, 0,                                                                       \
       "File for the log; %h is the host's name, %p the process id. Empty: standard "              \
       "error. A file or link of another user is refused.")                                        \
  TEXT(flight_dump, "", any, 0,                                                                    \
       "Where a rank writes what it did last, when a communicator fails: a file with %r "          \
       "(rank), %h (host) and %p (process id) in its name; without %r a directory.")               \
  TEXT(flight_signal, "", flight_signal, 0,                                                        \
       "Signal at which `flight_dump` is written, too.")

namespace nezha {

// The fields' places in the table: FieldIndex::chunk_bytes.
enum class FieldIndex : size_t {
#define NEZHA_TEXT(name, ...) name,
  NEZHA_CONFIG_FIELDS(NEZHA_TEXT, NEZHA_TEXT, NEZHA_TEXT, NEZHA_TEXT, NEZHA_TEXT)
#undef NEZHA_TEXT
  count_
};
inline constexpr size_t kConfigFields = static_cast<size_t>(FieldIndex::count_);

struct Config {
#define NEZHA_TEXT(name, initial, ...) std::string name = initial;
#define NEZHA_COUNT(name, initial, ...) int name = initial;
#define NEZHA_BYTES(name, initial, ...) uint64_t name = initial;
#define NEZHA_SECONDS(name, initial, ...) double name = initial;
#define NEZHA_HIDDEN(name, ...) HiddenText name;
  NEZHA_CONFIG_FIELDS(NEZHA_TEXT, NEZHA_COUNT, NEZHA_BYTES, NEZHA_SECONDS, NEZHA_HIDDEN)
#undef NEZHA_TEXT
#undef NEZHA_COUNT
#undef NEZHA_BYTES
#undef NEZHA_SECONDS
#undef NEZHA_HIDDEN

  // Things to tell the user that are no errors: unknown names, a file that others can read.
  std::vector<std::string> warnings;
  // Where each value came from; empty is "default". Use origin().
  std::array<std::string, kConfigFields> origins;

  // "default", "file /etc/nezha.conf:3", "environment NEZHA_RAILS" or "code".
  std::string_view origin(FieldIndex field) const;

  // "algorithm=auto chunk_bytes=262144 ...": equal on ranks that may work together.
  std::string agreed_fingerprint_text() const;
  // {"chunk_bytes": {"value": 262144, "origin": "default"}, ...}; hidden values are "(set)" or "".
  std::string to_json() const;
};

// The inputs of one load. Tests make their own; `of_process` reads the real environment.
struct ConfigInputs {
  HiddenText code;                      // "key=value" lines, '#' comments
  std::vector<HiddenText> environment;  // "NAME=value"

  static ConfigInputs of_process(std::string_view code);
};
Result<Config> load_config(const ConfigInputs& inputs);
// The load that the library uses: of `code` and the real environment.
Result<Config> load_config(std::string_view code = {});

// Sets a variable of this process's environment, unless the user has: for a library that is opened
// at run time and can only be configured so. Threads of other code must not read the environment at
// that moment.
void set_environment_default(const char* name, const char* value);

// Every field with default, unit, range, environment name and meaning: `nezha_query("config")`.
std::string config_schema_json();

// Values with an inner form; the same functions check them while loading.
struct PortRange {
  uint16_t low = 0;  // 0: any port
  uint16_t high = 0;
};
Result<PortRange> parse_port_range(std::string_view text);
// Weights are finite and >= 0, at least one is > 0, at most 16 in all; empty text gives none.
Result<std::vector<double>> parse_weights(std::string_view text);
// "auto" is -1, or a number from 0 to 1.
Result<double> parse_share(std::string_view text);
// The address of an aggregation node; without a port, its usual port.
inline constexpr uint16_t kAggregatorPort = 7700;
struct NodeAddress {
  std::string address;  // numeric
  uint16_t port = kAggregatorPort;
};
Result<NodeAddress> parse_node_address(std::string_view text);
// "262144", "256K", "8M", "1G" (binary).
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace nezha
