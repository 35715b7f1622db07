// raw_fabric: rate and latency of plain libfabric between two processes (--help tells the rest). The peer
// with which Nezha's ofi rails are compared: same writes, no collective around them.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <vector>

#include "endpoint.h"
#include "options.h"
#include "phases.h"
#include "side_channel.h"
#include "watch.h"

namespace nezha::bench {
namespace {

struct Spread {
  double median, least, largest;
};

Spread spread_of(std::vector<double> values, double (*convert)(double, const Options&),
                 const Options& options) {
  for (double& value : values) value = convert(value, options);
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double to_gbit_per_second(double seconds, const Options& options) {
  return static_cast<double>(options.size) * 8 * static_cast<double>(options.iterations) / seconds / 1e9;
}

double to_microseconds(double seconds, const Options&) { return seconds * 1e6; }

struct Row {
  const char* key;
  const char* title;
  Spread spread;
};

std::vector<Row> rows_of(const Results& results, const Options& options) {
  const auto rate = [&](const std::vector<double>& seconds) {
    return spread_of(seconds, to_gbit_per_second, options);
  };
  const auto latency = [&](const std::vector<double>& seconds) {
    return spread_of(seconds, to_microseconds, options);
  };
  std::vector<Row> rows = {{"write_gbit_per_s", "fi_writedata, Gbit/s", rate(results.write_seconds)}};
  if (options.both_ways) {
    rows.push_back({"exchange_gbit_per_s", "both ways at once, Gbit/s each",
                    rate(results.exchange_seconds)});
    rows.push_back({"sum_gbit_per_s", "the same, and added up", rate(results.sum_seconds)});
  }
  rows.push_back({"write_latency_us", "fi_writedata of 8 bytes, us",
                  latency(results.write_latency_seconds)});
  rows.push_back({"send_latency_us", "fi_send of 8 bytes, us", latency(results.send_latency_seconds)});
  return rows;
}

void print_json(const Options& options, const std::string& what, const std::vector<Row>& rows,
                uint64_t verified) {
  std::printf("{\"what\": \"%s\", \"provider\": \"%s\", \"size\": %llu, \"window\": %llu, "
              "\"iterations\": %llu, \"repeats\": %llu, \"verified\": %llu",
              what.c_str(), options.provider.c_str(), static_cast<unsigned long long>(options.size),
              static_cast<unsigned long long>(options.window),
              static_cast<unsigned long long>(options.iterations),
              static_cast<unsigned long long>(options.repeats),
              static_cast<unsigned long long>(verified));
  for (const Row& row : rows) {
    std::printf(", \"%s\": {\"median\": %.6g, \"least\": %.6g, \"largest\": %.6g}", row.key,
                row.spread.median, row.spread.least, row.spread.largest);
  }
  std::printf("}\n");
}

void print_table(const Options& options, const std::string& what, const std::vector<Row>& rows,
                 uint64_t verified) {
  std::printf("%s\n%llu writes of %llu bytes compared at the receiver, all right\n", what.c_str(),
              static_cast<unsigned long long>(verified), static_cast<unsigned long long>(options.size));
  std::printf("%-34s %12s %12s %12s\n", "", "median", "least", "largest");
  for (const Row& row : rows) {
    std::printf("%-34s %12.4g %12.4g %12.4g\n", row.title, row.spread.median, row.spread.least,
                row.spread.largest);
  }
}

void run_half(const Options& options, int side_descriptor, bool sender) {
  const bool alone = options.role != Role::both;
  const std::string& address = alone || !sender ? options.address : options.peer_address;
  SideChannel side(side_descriptor);
  Endpoint endpoint(options, address, sender);
  const Greeting mine = endpoint.greeting();
  side.send(&mine, sizeof mine);
  Greeting theirs{};
  side.receive(&theirs, sizeof theirs);
  endpoint.connect(theirs);
  if (!sender) {
    run_receiver(endpoint, side, options);
    return;
  }
  const Results results = run_sender(endpoint, side, options);
  const auto print = options.json ? print_json : print_table;
  print(options, endpoint.library_and_provider(), rows_of(results, options), results.verified);
}

std::string name_of_half(const Options& options, bool sender) {
  const std::string& address = options.role != Role::both || !sender ? options.address
                                                                     : options.peer_address;
  return std::string(sender ? "sender" : "receiver") + ", " + options.provider +
         (address.empty() ? "" : " at " + address);
}

int run_both(const Options& options) {
  const auto [ours, theirs] = SideChannel::make_pair();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail("fork failed");
  const bool sender = child != 0;
  if (!sender) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
  }
  close(sender ? theirs : ours);
  start_watch(options.timeout_s, name_of_half(options, sender));
  run_half(options, sender ? ours : theirs, sender);
  if (!sender) return 0;
  enter_phase("the receiver's end", 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_one(const Options& options) {
  const bool sender = options.role == Role::client;
  start_watch(options.timeout_s, name_of_half(options, sender));
  run_half(options, SideChannel::meet(options), sender);
  return 0;
}

int run(const Options& options) {
  return options.role == Role::both ? run_both(options) : run_one(options);
}

}  // namespace
}  // namespace nezha::bench

int main(int count, char** words) {
  const int status = nezha::bench::run(nezha::bench::parse_options(count, words));
  std::fflush(stdout);
  _exit(status);  // what the providers do when the program ends is not what was to be measured
}
