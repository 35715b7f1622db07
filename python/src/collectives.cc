// The operations of a Communicator: arrays are checked and held, then the C function is called.
#include <nanobind/stl/optional.h>

#include "communicator.h"
#include "errors.h"
#include "work.h"

namespace nb = nanobind;

namespace nezha::python {
namespace {

std::string blocks_of(int world_size, uint64_t count) {
  return std::to_string(world_size) + " ranks times " + std::to_string(count);
}

uint64_t own_count(const Counts& counts, int rank) {
  return static_cast<uint64_t>(counts[static_cast<size_t>(rank)]);
}

// An output that this rank must have.
void acquire_out(Operation& operation, nb::handle out, Elements elements, const char* why) {
  if (out.is_none()) raise(NEZHA_INVALID_ARGUMENT, std::string("out is None: ") + why);
  operation.output.acquire(out, Access::write, "out", elements);
  operation.result = nb::borrow(out);
}

}  // namespace

template <class Issue>
nb::object Communicator::run(std::shared_ptr<Operation>& operation, const CallOptions& options,
                             Issue&& issue) {
  if (!groups_.empty()) {
    const auto group = groups_.find(PyThread_get_thread_ident());
    if (group != groups_.end()) {
      if (options.async_op) {
        raise(NEZHA_INVALID_ARGUMENT, "async_op belongs to the group, not to the operations in it: "
                                      "pass it to group()");
      }
      check(issue(operation->comm(), nullptr));
      group->second->parts.push_back(operation);
      return operation->result;
    }
  }
  operation->start(issue, /*block=*/!options.async_op);
  if (!options.async_op) return operation->result;
  return work_of(operation);
}

nb::object Communicator::work_of(std::shared_ptr<Operation> operation) {
  handle_->add_unfinished(operation);
  return nb::cast(Work(std::move(operation), nb::find(this)));
}

nb::object Communicator::all_reduce(Given x, Given given_op, Given out, Given factor, Given algorithm,
                                    Given timeout, Given async_op) {
  const nezha_op op = to_op(given_op);
  CallOptions options(timeout, algorithm, async_op);
  options.factor = to_factor(op, factor);
  auto operation = new_operation("all_reduce");
  Buffer& in = operation->input;
  in.acquire(x, out.is_none() ? Access::write : Access::read, "x", Elements::numbers);
  const nezha_op applied = operator_on(in, op);
  void* target = in.data();
  operation->result = nb::borrow(x);
  if (!out.is_none()) {
    acquire_out(*operation, out, Elements::numbers, "");
    target = operation->output.data();
    check_same_dtype(in, operation->output);
    check_elements("out", operation->output, in.count(), "as many as x");
  }
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_all_reduce(comm, in.data(), target, in.amount(), in.dtype(), applied, &options, work);
  });
}

nb::object Communicator::broadcast(Given x, Given given_root, Given algorithm, Given timeout,
                                   Given async_op) {
  const int root = to_rank(given_root, "root");
  CallOptions options(timeout, algorithm, async_op);
  auto operation = new_operation("broadcast");
  Buffer& buffer = operation->input;
  buffer.acquire(x, rank == root ? Access::read : Access::write, "x", Elements::any);
  operation->result = nb::borrow(x);
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_broadcast(comm, buffer.data(), buffer.amount(), buffer.dtype(), root, &options,
                           work);
  });
}

nb::object Communicator::all_gather(Given x, Given out, Given algorithm, Given timeout, Given async_op) {
  CallOptions options(timeout, algorithm, async_op);
  auto operation = new_operation("all_gather");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::any);
  acquire_out(*operation, out, Elements::any, "it receives the blocks of all ranks");
  check_same_dtype(in, to);
  check_elements("out", to, in.count() * static_cast<uint64_t>(world_size),
                 blocks_of(world_size, in.count()) + " of x");
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_all_gather(comm, in.data(), to.data(), in.amount(), in.dtype(), &options, work);
  });
}

nb::object Communicator::all_gather_v(Given x, Given out, Given given_counts, Given algorithm,
                                      Given timeout, Given async_op) {
  CallOptions options(timeout, algorithm, async_op);
  const auto [counts, total] = to_counts(given_counts, "counts", world_size);
  auto operation = new_operation("all_gather_v");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::any);
  acquire_out(*operation, out, Elements::any, "it receives the blocks of all ranks");
  check_same_dtype(in, to);
  check_elements("x", in, own_count(counts, rank), "counts[" + std::to_string(rank) + "]");
  check_elements("out", to, total, "the sum of counts");
  const Lengths lengths = in_units(counts, in);
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_all_gather_v(comm, in.data(), to.data(), lengths.data(), in.dtype(), &options,
                              work);
  });
}

nb::object Communicator::reduce_scatter(Given x, Given out, Given given_op, Given factor, Given algorithm,
                                        Given timeout, Given async_op) {
  const nezha_op op = to_op(given_op);
  CallOptions options(timeout, algorithm, async_op);
  options.factor = to_factor(op, factor);
  auto operation = new_operation("reduce_scatter");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::numbers);
  const nezha_op applied = operator_on(in, op);
  acquire_out(*operation, out, Elements::numbers, "it receives this rank's block of the result");
  check_same_dtype(in, to);
  check_elements("x", in, to.count() * static_cast<uint64_t>(world_size),
                 blocks_of(world_size, to.count()) + " of out");
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_reduce_scatter(comm, in.data(), to.data(), to.amount(), in.dtype(), applied, &options,
                                work);
  });
}

nb::object Communicator::reduce_scatter_v(Given x, Given out, Given given_counts, Given given_op,
                                          Given factor, Given algorithm, Given timeout,
                                          Given async_op) {
  const nezha_op op = to_op(given_op);
  CallOptions options(timeout, algorithm, async_op);
  options.factor = to_factor(op, factor);
  const auto [counts, total] = to_counts(given_counts, "counts", world_size);
  auto operation = new_operation("reduce_scatter_v");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::numbers);
  const nezha_op applied = operator_on(in, op);
  acquire_out(*operation, out, Elements::numbers, "it receives this rank's block of the result");
  check_same_dtype(in, to);
  check_elements("x", in, total, "the sum of counts");
  check_elements("out", to, own_count(counts, rank),
                 "counts[" + std::to_string(rank) + "]");
  const Lengths lengths = in_units(counts, in);
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_reduce_scatter_v(comm, in.data(), to.data(), lengths.data(), in.dtype(), applied,
                                  &options, work);
  });
}

nb::object Communicator::reduce(Given x, Given given_root, Given given_op, Given out, Given factor,
                                Given algorithm, Given timeout, Given async_op) {
  const nezha_op op = to_op(given_op);
  const int root = to_rank(given_root, "root");
  CallOptions options(timeout, algorithm, async_op);
  options.factor = to_factor(op, factor);
  auto operation = new_operation("reduce");
  Buffer& in = operation->input;
  const bool is_in_place = rank == root && out.is_none();
  in.acquire(x, is_in_place ? Access::write : Access::read, "x", Elements::numbers);
  const nezha_op applied = operator_on(in, op);
  void* target = is_in_place ? in.data() : nullptr;
  operation->result = is_in_place ? nb::borrow(x) : nb::none();
  if (rank == root && !is_in_place) {
    acquire_out(*operation, out, Elements::numbers, "");
    target = operation->output.data();
    check_same_dtype(in, operation->output);
    check_elements("out", operation->output, in.count(), "as many as x");
  }
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_reduce(comm, in.data(), target, in.amount(), in.dtype(), applied, root, &options, work);
  });
}

nb::object Communicator::gather(Given x, Given out, Given given_root, Given algorithm, Given timeout,
                                Given async_op) {
  const int root = to_rank(given_root, "root");
  CallOptions options(timeout, algorithm, async_op);
  auto operation = new_operation("gather");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::any);
  operation->result = nb::none();
  if (rank == root) {
    acquire_out(*operation, out, Elements::any, "the root receives the blocks of all ranks");
    check_same_dtype(in, to);
    check_elements("out", to, in.count() * static_cast<uint64_t>(world_size),
                   blocks_of(world_size, in.count()) + " of x");
  }
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_gather(comm, in.data(), to.data(), in.amount(), in.dtype(), root, &options, work);
  });
}

nb::object Communicator::scatter(Given x, Given out, Given given_root, Given algorithm, Given timeout,
                                 Given async_op) {
  const int root = to_rank(given_root, "root");
  CallOptions options(timeout, algorithm, async_op);
  auto operation = new_operation("scatter");
  Buffer &in = operation->input, &to = operation->output;
  acquire_out(*operation, out, Elements::any, "it receives this rank's block");
  if (rank == root) {
    in.acquire(x, Access::read, "x", Elements::any);
    check_same_dtype(in, to);
    check_elements("x", in, to.count() * static_cast<uint64_t>(world_size),
                   blocks_of(world_size, to.count()) + " of out");
  }
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_scatter(comm, in.data(), to.data(), to.amount(), to.dtype(), root, &options, work);
  });
}

nb::object Communicator::all_to_all(Given x, Given out, Given algorithm, Given timeout, Given async_op) {
  CallOptions options(timeout, algorithm, async_op);
  auto operation = new_operation("all_to_all");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::any);
  acquire_out(*operation, out, Elements::any, "it receives a block of every rank");
  check_same_dtype(in, to);
  check_elements("out", to, in.count(), "as many as x");
  const uint64_t block = in.count() / static_cast<uint64_t>(world_size);
  check_elements("x", in, block * static_cast<uint64_t>(world_size),
                 "it holds one block of equal length for each of the " +
                     std::to_string(world_size) + " ranks");
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_all_to_all(comm, in.data(), to.data(), block * in.unit(), in.dtype(), &options, work);
  });
}

nb::object Communicator::all_to_all_v(Given x, Given given_send_counts, Given out,
                                      Given given_receive_counts, Given algorithm, Given timeout,
                                      Given async_op) {
  CallOptions options(timeout, algorithm, async_op);
  const auto [send_counts, sent] = to_counts(given_send_counts, "send_counts", world_size);
  const auto [receive_counts, received] = to_counts(given_receive_counts, "receive_counts", world_size);
  auto operation = new_operation("all_to_all_v");
  Buffer &in = operation->input, &to = operation->output;
  in.acquire(x, Access::read, "x", Elements::any);
  acquire_out(*operation, out, Elements::any, "it receives a block of every rank");
  check_same_dtype(in, to);
  check_elements("x", in, sent, "the sum of send_counts");
  check_elements("out", to, received, "the sum of receive_counts");
  const Lengths to_each = in_units(send_counts, in);
  const Lengths from_each = in_units(receive_counts, in);
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_all_to_all_v(comm, in.data(), to_each.data(), to.data(), from_each.data(),
                              in.dtype(), &options, work);
  });
}

nb::object Communicator::barrier(Given timeout, Given async_op) {
  CallOptions options(timeout, nb::none(), async_op);
  auto operation = new_operation("barrier");
  operation->result = nb::none();
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_barrier(comm, &options, work);
  });
}

nb::object Communicator::send(Given x, Given given_destination, Given given_tag, Given timeout,
                              Given async_op) {
  CallOptions options(timeout, nb::none(), async_op);
  const int destination = to_rank(given_destination, "destination");
  const uint32_t tag = to_tag(given_tag);
  auto operation = new_operation("send");
  Buffer& buffer = operation->input;
  buffer.acquire(x, Access::read, "x", Elements::any);
  operation->result = nb::none();
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_send(comm, buffer.data(), buffer.amount(), buffer.dtype(), destination, tag,
                      &options, work);
  });
}

nb::object Communicator::recv(Given x, Given given_source, Given given_tag, Given timeout,
                              Given async_op) {
  CallOptions options(timeout, nb::none(), async_op);
  const int source = to_source(given_source);
  const uint32_t tag = to_wanted_tag(given_tag);
  auto operation = new_operation("recv");
  Buffer& buffer = operation->input;
  buffer.acquire(x, Access::write, "x", Elements::any);
  operation->result = nb::borrow(x);
  return run(operation, options, [&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_recv(comm, buffer.data(), buffer.amount(), buffer.dtype(),
                      source, tag, &options, work);
  });
}

nb::object Communicator::probe(Given given_source, Given given_tag) {
  const int source = to_source(given_source);
  const uint32_t tag = to_wanted_tag(given_tag);
  Handle::Lease lease(handle_);
  nezha_message message = NEZHA_MESSAGE_INIT;
  int found = 0;
  const nezha_code code = [&] {
    nb::gil_scoped_release released;
    return nezha_probe(lease.raw(), source, tag, &found, &message);
  }();
  check(code);
  if (found == 0) return nb::none();
  return nb::make_tuple(message.source, message.tag, message.count,
                        message.count * nezha_dtype_size(message.dtype));
}

// ---------------------------------------------------------------------------------- groups

void Communicator::group_begin() {
  Handle::Lease lease(handle_);
  check(nezha_group_begin(lease.raw()));
  groups_[PyThread_get_thread_ident()] = new_operation("group");
}

std::shared_ptr<Operation> Communicator::take_group() {
  const auto found = groups_.find(PyThread_get_thread_ident());
  if (found == groups_.end()) return nullptr;
  std::shared_ptr<Operation> group = std::move(found->second);
  groups_.erase(found);
  return group;
}

nb::object Communicator::group_end(Given timeout, Given async_op) {
  std::shared_ptr<Operation> group = take_group();
  if (group == nullptr) group = new_operation("group");  // the C library says what is wrong
  nb::list results;
  for (const std::shared_ptr<Operation>& part : group->parts) results.append(part->result);
  group->result = std::move(results);
  CallOptions options(timeout, nb::none(), async_op);
  group->start([&](nezha_comm_t comm, nezha_work_t* work) {
    return nezha_group_end(comm, &options, work);
  }, /*block=*/!options.async_op);
  return work_of(std::move(group));
}

void Communicator::group_cancel() {
  const std::shared_ptr<Operation> group = take_group();
  if (group != nullptr) nezha_group_cancel(group->comm());
}

}  // namespace nezha::python
