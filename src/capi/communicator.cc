// nezha.h: communicators, from joining to leaving.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/config.h"
#include "capi/handles.h"
#include "context/exchange.h"
#include "context/launch_environment.h"

using nezha::Code;
using nezha::error;
using nezha::Result;
using nezha::Status;
namespace context = nezha::context;
using nezha::capi::check;
using nezha::capi::guarded;
using nezha::capi::is_from_before_fork;
using nezha::capi::read_sized;
using nezha::context::Communicator;
using nezha::context::Context;
using nezha::context::ContextRequest;

namespace {

// Where the ranks meet, and the secret that rank 0 made for them, by what the program has already.
Status meet(const nezha_exchange& given, ContextRequest* request) {
  nezha_exchange theirs{};
  NEZHA_RETURN_IF_ERROR(read_sized(&given, &theirs));
  NEZHA_RETURN_IF_ERROR(context::check_rank(request->rank, request->world_size));
  if (request->world_size == 1) {
    request->store = context::kNobodyToMeet;
    return Status::ok();
  }
  // Also with options that are wrong: the others are in the same calls, and nothing ends those.
  auto config = nezha::load_config(request->config);
  auto meeting = context::meet({request->rank, request->world_size, theirs.user, theirs.broadcast,
                                theirs.all_gather}, config ? *config : nezha::Config());
  if (!config) return config.status();
  if (!meeting) return meeting.status();
  request->store = meeting->store;
  if (!meeting->secret.empty()) request->config += "\nsecret=" + meeting->secret;
  return Status::ok();
}

Status join(const nezha_init_options& options, nezha_comm_t* out) {
  ContextRequest request;
  request.rank = options.rank;
  request.world_size = options.world_size;
  if (options.store != nullptr) request.store = options.store;
  if (options.job != nullptr) request.job = options.job;
  request.timeout_s = options.timeout_s;
  if (options.config != nullptr) request.config = options.config;
  nezha::rendezvous::StoreCallbacks callbacks;
  if (options.callbacks != nullptr) {
    nezha_store_callbacks theirs{};
    NEZHA_RETURN_IF_ERROR(read_sized(options.callbacks, &theirs));
    callbacks = {theirs.user, theirs.set, theirs.get, theirs.set_if_absent, theirs.remove};
    request.callbacks = &callbacks;
  } else if (options.exchange != nullptr) {
    NEZHA_RETURN_IF_ERROR(meet(*options.exchange, &request));
  }
  if (request.world_size == 1 && request.store == context::kNobodyToMeet) {
    static std::atomic<uint64_t> worlds{0};  // it does not meet an earlier one of this process either
    request.store += "-" + std::to_string(getpid()) + "-" + std::to_string(worlds++);
  }
  auto context = Context::create(request);
  if (!context) return context.status();
  auto world = Communicator::world(std::move(*context));
  if (!world) return world.status();
  *out = new nezha_comm{.communicator = std::move(*world)};
  return Status::ok();
}

}  // namespace

extern "C" {

nezha_code nezha_init(const nezha_init_options* given, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    if (given == nullptr || out == nullptr) {
      return error(Code::invalid_argument, "nezha_init needs options and a pointer for the result");
    }
    nezha_init_options options{};
    NEZHA_RETURN_IF_ERROR(read_sized(given, &options));
    return join(options, out);
  });
}

nezha_code nezha_init_from_environment(const nezha_init_options* given, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    if (out == nullptr) {
      return error(Code::invalid_argument, "nezha_init_from_environment needs a pointer for the result");
    }
    nezha_init_options options{};
    NEZHA_RETURN_IF_ERROR(read_sized(given, &options));
    auto launch = context::find_launch(context::process_variable);
    if (!launch) return launch.status();
    const bool is_alone = !launch->rank && !launch->world_size;
    if (!is_alone) NEZHA_RETURN_IF_ERROR(context::check_rank(launch->rank, launch->world_size));
    options.rank = launch->rank.value_or(0);
    options.world_size = launch->world_size.value_or(1);
    const std::string job = context::job_name(context::process_variable, *launch);
    if (options.job == nullptr && !job.empty()) options.job = job.c_str();
    std::string store;
    if (options.store == nullptr && options.callbacks == nullptr && options.exchange == nullptr) {
      Result<context::Rendezvous> found = context::Rendezvous{context::kNobodyToMeet};
      if (!is_alone) {
        found = context::find_rendezvous(context::process_variable, *launch, options.rank,
                                         options.world_size);
      }
      if (!found) return found.status();
      store = found->store;
      options.store = store.c_str();
    }
    return join(options, out);
  });
}

void nezha_destroy(nezha_comm_t comm) {
  if (comm != nullptr && !is_from_before_fork(comm)) delete comm;
}

nezha_code nezha_rank(nezha_comm_t comm, int* rank) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    *rank = comm->communicator->rank();
    return Status::ok();
  });
}

nezha_code nezha_world_size(nezha_comm_t comm, int* world_size) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    *world_size = comm->communicator->world_size();
    return Status::ok();
  });
}

nezha_code nezha_split(nezha_comm_t comm, int color, int key, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    auto part = comm->communicator->split(color, key);
    if (!part) return part.status();
    *out = *part == nullptr ? nullptr : new nezha_comm{.communicator = std::move(*part)};
    return Status::ok();
  });
}

nezha_code nezha_create(nezha_comm_t comm, const int* ranks, int count, const char* name,
                        nezha_comm_t* out) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    if (out == nullptr || ranks == nullptr || count < 1) {
      return error(Code::invalid_argument, "nezha_create needs at least one rank and a pointer "
                   "for the result; count is %d", count);
    }
    auto part = comm->communicator->create({ranks, static_cast<size_t>(count)},
                                           name == nullptr ? "" : name);
    if (!part) return part.status();
    *out = new nezha_comm{.communicator = std::move(*part)};
    return Status::ok();
  });
}

nezha_code nezha_shrink(nezha_comm_t comm, double timeout_s, nezha_comm_t* out) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    if (out == nullptr) {
      return error(Code::invalid_argument, "nezha_shrink needs a pointer for the result");
    }
    auto survivors = comm->communicator->shrink(timeout_s);
    if (!survivors) return survivors.status();
    *out = new nezha_comm{.communicator = std::move(*survivors)};
    return Status::ok();
  });
}

nezha_code nezha_comm_abort(nezha_comm_t comm) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    comm->communicator->abort();
    return Status::ok();
  });
}

nezha_code nezha_describe(nezha_comm_t comm, const char* what, char* text, size_t size,
                          size_t* needed) {
  std::string content;
  const nezha_code code = guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    const std::string topic = what == nullptr ? "" : what;
    Context& context = comm->communicator->context();
    if (topic == "rails") content = context.rails_json();
    else if (topic == "stats") content = context.stats_json();
    else if (topic == "config") content = context.config().to_json();
    else if (topic == "table") content = comm->communicator->table_json();
    else if (topic == "flight") content = context.flight_json();
    else if (topic == "stragglers") content = comm->communicator->stragglers_json();
    else return error(Code::invalid_argument, "cannot describe '%s': rails, stats, config, table, "
                      "flight or stragglers", topic.c_str());
    return Status::ok();
  });
  return code != NEZHA_OK ? code : nezha::capi::give_text(content, text, size, needed);
}

nezha_code nezha_dump_flight(nezha_comm_t comm, const char* path, char* text, size_t size,
                             size_t* needed) {
  std::string written;
  const nezha_code code = guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    auto file = comm->communicator->context().dump_flight(path == nullptr ? "" : path);
    if (!file) return file.status();
    written = std::move(*file);
    return Status::ok();
  });
  if (code != NEZHA_OK || text == nullptr) return code;
  return nezha::capi::give_text(written, text, size, needed);
}

nezha_code nezha_load_table(nezha_comm_t comm, const char* json) {
  return guarded([&]() -> Status {
    NEZHA_RETURN_IF_ERROR(check(comm));
    return comm->communicator->load_table(json == nullptr ? "" : json);
  });
}

}  // extern "C"
