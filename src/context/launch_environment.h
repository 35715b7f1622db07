// Reads from an environment what a launcher left there: which rank this is, of how many, where they meet.
//
// The one place that knows launchers' variables, for C programs (nezha_init_from_environment), for
// Python and for commands (nezha_query, "launch"). Launchers in order of precedence: RANK and WORLD_SIZE
// (`nezha run`, torchrun, by hand), Open MPI, PMI (MPICH), Slurm, PMIx. Those of MPI go before Slurm,
// whose variables in their ranks are those of their daemons.
//
// Contract: everything is read through `Variables`, nothing from the machine. Any thread. Errors:
// `invalid_argument` that names the variable that is missing or wrong, and what to do.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace nezha::context {

// The value of a variable, or null.
using Variables = std::function<const char*(const char* name)>;
// Those of this process.
const char* process_variable(const char* name);

struct Launch {
  std::string launcher = "arguments";  // or "environment", "openmpi", "pmi", "slurm", "pmix"
  std::string variable;                // the one that has the rank
  std::optional<int> rank;             // none: not said, as below
  std::optional<int> world_size;
  std::optional<int> local_rank;       // among the ranks of its host
  std::optional<int> local_size;
  // A batch script of Slurm has its job's variables, but srun starts the ranks.
  bool is_batch_script = false;
};

// The store of a world of one.
inline constexpr char kNobodyToMeet[] = "hash://single";

struct Rendezvous {
  std::string store;       // an address as nezha_init takes it
  bool is_torchs = false;  // a store that torchrun serves is at MASTER_ADDR:MASTER_PORT
};

Result<Launch> find_launch(const Variables& variables);
// Both are known and fit together.
Status check_rank(std::optional<int> rank, std::optional<int> world_size);
// Where a rank meets the others, once find_launch or the caller has said which rank it is.
Result<Rendezvous> find_rendezvous(const Variables& variables, const Launch& launch, int rank,
                                   int world_size);
// A name that the ranks of this start share and those of other starts do not; "" where there is none.
std::string job_name(const Variables& variables, const Launch& launch);
// The first host of a Slurm node list: a1 of "a[1-3,07],b".
Result<std::string> first_host(const std::string& node_list);

}  // namespace nezha::context
