#include "context/launch_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace nezha::context {
namespace {

// Ports for meeting under Slurm: below the range from which kernels hand out ports of their own.
constexpr int64_t kSlurmPortBase = 15000;
constexpr int64_t kSlurmPortCount = 15000;

// Names of a launcher's variables. `sizes`: of the world size; the first that is set counts.
struct Launcher {
  const char* name;
  const char* rank;
  std::array<const char*, 2> sizes;
  const char* local_rank;
  const char* local_size;
};

constexpr Launcher kLaunchers[] = {
    {"environment", "RANK", {"WORLD_SIZE", nullptr}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE", nullptr}, "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", {"PMI_SIZE", nullptr}, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_LOCALID",
     "SLURM_NTASKS_PER_NODE"},
    {"pmix", "PMIX_RANK", {"WORLD_SIZE", nullptr}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

using Number = std::optional<int64_t>;

std::string text_of(const Variables& variables, const char* name) {
  const char* const value = variables(name);
  return value == nullptr ? "" : value;
}

Result<Number> number_of(const Variables& variables, const char* name) {
  const char* const value = variables(name);
  if (value == nullptr) return Number();
  int64_t number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, code] = std::from_chars(value, end, number);
  if (code != std::errc() || stop != end) {
    return error(Code::invalid_argument, "%s='%s' is not a number", name, value);
  }
  return Number(number);
}

Result<std::optional<int>> small_number_of(const Variables& variables, const char* name) {
  auto number = number_of(variables, name);
  if (!number) return number.status();
  if (!*number) return std::optional<int>();
  if (**number < INT32_MIN || **number > INT32_MAX) {
    return error(Code::invalid_argument, "%s='%s' is too large", name, variables(name));
  }
  return std::optional<int>(static_cast<int>(**number));
}

// Number of srun's step; none in a batch script, which has a SLURM_PROCID all the same.
Result<Number> slurm_step(const Variables& variables) {
  auto step = number_of(variables, "SLURM_STEP_ID");
  if (!step || *step) return step;
  return number_of(variables, "SLURM_STEPID");
}

// "slurm" for tasks to which srun itself speaks PMI (srun --mpi=pmi2), else the launcher's own name.
Result<std::string> who_started(const Variables& variables, const Launch& launch, const char* name) {
  auto rank = small_number_of(variables, "SLURM_PROCID");
  if (!rank) return rank.status();
  auto size = small_number_of(variables, "SLURM_STEP_NUM_TASKS");
  if (!size) return size.status();
  const bool same = *rank && *size && *rank == launch.rank && *size == launch.world_size;
  return std::string(same && std::string_view(name) == "pmi" ? "slurm" : name);
}

// The first launcher that set both; else what there is.
Result<Launch> find_identity(const Variables& variables) {
  Launch partial;
  for (const Launcher& each : kLaunchers) {
    Launch found;
    auto rank = small_number_of(variables, each.rank);
    if (!rank) return rank.status();
    found.rank = *rank;
    const auto size = std::find_if(each.sizes.begin(), each.sizes.end(), [&](const char* name) {
      return name != nullptr && variables(name) != nullptr;
    });
    if (size != each.sizes.end()) {
      auto number = small_number_of(variables, *size);
      if (!number) return number.status();
      found.world_size = *number;
    }
    if (found.rank && found.world_size) {
      auto launcher = who_started(variables, found, each.name);
      if (!launcher) return launcher.status();
      found.launcher = *launcher;
      return found;
    }
    if (partial.rank || !found.rank) continue;
    partial.launcher = each.name;
    partial.rank = found.rank;
  }
  if (partial.rank || variables("WORLD_SIZE") == nullptr) return partial;
  auto size = small_number_of(variables, "WORLD_SIZE");
  if (!size) return size.status();
  partial.launcher = "environment";
  partial.world_size = *size;
  return partial;
}

std::string tcp_address(const std::string& host, int64_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return "tcp://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// On the first host of the first list that is set, where Slurm and mpirun put rank 0.
Result<Rendezvous> meet_under_slurm(const Variables& variables, std::initializer_list<const char*> lists,
                                 int64_t step) {
  const auto list = std::find_if(lists.begin(), lists.end(), [&](const char* name) {
    return !text_of(variables, name).empty();
  });
  if (list == lists.end()) {
    return error(Code::invalid_argument, "Slurm's variables are set, but SLURM_NODELIST is not: start "
                 "with srun, or set MASTER_ADDR and MASTER_PORT");
  }
  auto host = first_host(text_of(variables, *list));
  if (!host) return host.status();
  Number job;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) {
    auto number = number_of(variables, name);
    if (!number) return number.status();
    if (!job) job = *number;
  }
  const int64_t port = kSlurmPortBase + (job.value_or(0) * 31 + step) % kSlurmPortCount;
  return Rendezvous{tcp_address(*host, port)};
}

// At MASTER_ADDR:MASTER_PORT, or beside a store of torchrun's that is there.
Result<Rendezvous> meet_at_master(const Variables& variables, const std::string& host) {
  auto port = number_of(variables, "MASTER_PORT");
  if (!port) return port.status();
  const int64_t number = port->value_or(0);
  if (number < 1 || number > 65535) {
    return error(Code::invalid_argument, "MASTER_PORT='%s': want 1 to 65535", variables("MASTER_PORT"));
  }
  const char* const served = variables("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_torchs = variables("TORCHELASTIC_RUN_ID") != nullptr &&
                         (served == nullptr || std::string_view(served) == "True");
  if (!is_torchs) return Rendezvous{tcp_address(host, number)};
  return Rendezvous{tcp_address(host, number < 65535 ? number + 1 : number - 1), true};
}

}  // namespace

const char* process_variable(const char* name) { return std::getenv(name); }

Result<Launch> find_launch(const Variables& variables) {
  auto found = find_identity(variables);
  if (!found) return found;
  const auto launcher = std::find_if(std::begin(kLaunchers), std::end(kLaunchers), [&](const auto& each) {
    return each.name == found->launcher;
  });
  if (launcher == std::end(kLaunchers)) return found;
  auto step = slurm_step(variables);
  if (!step) return step.status();
  auto local_rank = small_number_of(variables, launcher->local_rank);
  if (!local_rank) return local_rank.status();
  auto local_size = small_number_of(variables, launcher->local_size);
  if (!local_size) return local_size.status();
  found->variable = launcher->rank;
  found->local_rank = *local_rank;
  found->local_size = *local_size;
  found->is_batch_script = found->launcher == "slurm" && !*step;
  return found;
}

Status check_rank(std::optional<int> rank, std::optional<int> world_size) {
  if (!rank || !world_size) {
    const std::string have = rank ? "rank=" + std::to_string(*rank)
                             : world_size ? "world_size=" + std::to_string(*world_size) : "nothing";
    return error(Code::invalid_argument, "%s is known, but not the %s: pass %s= or set %s, or start the "
                 "program with `nezha run -n N`", have.c_str(), rank ? "world_size" : "rank",
                 rank ? "world_size" : "rank", rank ? "WORLD_SIZE" : "RANK");
  }
  if (*world_size < 1 || *rank < 0 || *rank >= *world_size) {
    return error(Code::invalid_argument, "rank %d of %d: ranks go from 0 to world_size-1", *rank,
                 *world_size);
  }
  return Status::ok();
}

Result<Rendezvous> find_rendezvous(const Variables& variables, const Launch& launch, int rank,
                                   int world_size) {
  const std::string store = text_of(variables, "NEZHA_STORE");
  const std::string host = text_of(variables, "MASTER_ADDR");
  const std::string port = text_of(variables, "MASTER_PORT");
  if (!store.empty()) return Rendezvous{store};
  if (!host.empty() && !port.empty()) return meet_at_master(variables, host);
  if (world_size == 1) return Rendezvous{kNobodyToMeet};
  if (launch.launcher == "slurm") {
    if (launch.is_batch_script) {
      return error(Code::invalid_argument, "SLURM_NTASKS=%d, but srun did not start this process: "
                   "write srun before the program in the batch script, or pass rank= and world_size=",
                   world_size);
    }
    auto step = slurm_step(variables);
    if (!step) return step.status();
    return meet_under_slurm(variables, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"},
                            step->value_or(0));
  }
  const bool is_mpi = launch.launcher == "openmpi" || launch.launcher == "pmi";
  // A step would be the one of mpirun's daemons, in which not every node takes part.
  if (is_mpi && variables("SLURM_JOB_ID") != nullptr) {
    return meet_under_slurm(variables, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}, 0);
  }
  const std::string have = !host.empty() ? "MASTER_ADDR=" + host
                           : !port.empty() ? "MASTER_PORT=" + port : "neither";
  const char* hint = "";
  if (launch.launcher == "openmpi") {
    hint = " (mpirun -x MASTER_ADDR=HOST_OF_RANK_0 -x MASTER_PORT=29500)";
  } else if (launch.launcher == "pmi") {
    hint = " (mpiexec -env MASTER_ADDR HOST_OF_RANK_0 -env MASTER_PORT 29500)";
  }
  return error(Code::invalid_argument, "rank %d of %d does not know where to meet the others: set "
               "MASTER_ADDR and MASTER_PORT%s or NEZHA_STORE, or pass store=; %s is set", rank,
               world_size, hint, have.c_str());
}

std::string job_name(const Variables& variables, const Launch& launch) {
  const std::string given = text_of(variables, "NEZHA_JOB");
  if (!given.empty()) return given;
  if (const char* const run = variables("TORCHELASTIC_RUN_ID"); run != nullptr) {
    const char* const restarts = variables("TORCHELASTIC_RESTART_COUNT");
    return std::string(run) + "." + (restarts == nullptr ? "0" : restarts);
  }
  if (launch.launcher == "openmpi") return text_of(variables, "PMIX_NAMESPACE");
  if (launch.launcher == "pmi") return "";  // ranks may differ in what their daemons inherited
  if (variables("SLURM_JOB_ID") == nullptr || variables("SLURM_PROCID") == nullptr) return "";
  auto step = slurm_step(variables);
  const int64_t number = step ? step->value_or(0) : 0;
  return "slurm" + text_of(variables, "SLURM_JOB_ID") + "." + std::to_string(number);
}

Result<std::string> first_host(const std::string& node_list) {
  const auto bad = [&](const std::string& why) {
    return error(Code::invalid_argument, "node list '%s': %s", node_list.c_str(), why.c_str());
  };
  const auto is_number = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
  };
  std::string host;
  size_t at = node_list.find_first_not_of(" ,");
  while (at < node_list.size() && node_list[at] != ',') {
    if (node_list[at] != '[') {
      host += node_list[at++];
      continue;
    }
    const size_t end = node_list.find(']', at);
    if (end == std::string::npos) return bad("a bracket is not closed");
    const std::string inside = node_list.substr(at + 1, end - at - 1);
    const std::string range = inside.substr(0, inside.find(','));
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
    if (!is_number(low) || !is_number(high)) return bad("'" + range + "' is no number and no range");
    if (high.size() < low.size() || (high.size() == low.size() && high < low)) {
      return bad("the range '" + range + "' is empty");
    }
    host += low;
    at = end + 1;
  }
  while (!host.empty() && host.back() == ' ') host.pop_back();
  if (host.empty()) return bad("it is empty");
  return host;
}

}  // namespace nezha::context
