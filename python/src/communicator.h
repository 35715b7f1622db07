// Communicator: nezha_comm_t with Python's arrays: what nezha/communicator.py calls.
//
// Contract: every member is called with the GIL held, which waiting gives up. Errors leave as
// exceptions. An array that is None where it may be is not there on this rank.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "call.h"
#include "errors.h"
#include "handle.h"
#include "operation.h"

namespace nezha::python {

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<Handle> handle);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // Unfinished operations hold the handle, so it would never end by itself.
  ~Communicator();

  int rank = -1;
  int world_size = 0;

  bool closed() const { return handle_->closed(); }
  void close(Given timeout);
  void abort();
  std::unique_ptr<Communicator> split(Given color, Given key);
  std::unique_ptr<Communicator> create(Given ranks, Given name);
  std::unique_ptr<Communicator> shrink(Given timeout);
  std::string describe(const char* what);
  // Writes the flight dump and answers with the file's name.
  std::string dump_flight(const OptionalText& path);
  void load_table(const std::string& json);

  nanobind::object all_reduce(Given x, Given op, Given out, Given factor, Given algorithm, Given timeout,
                              Given async_op);
  nanobind::object broadcast(Given x, Given root, Given algorithm, Given timeout, Given async_op);
  nanobind::object all_gather(Given x, Given out, Given algorithm, Given timeout, Given async_op);
  nanobind::object all_gather_v(Given x, Given out, Given counts, Given algorithm, Given timeout,
                                Given async_op);
  nanobind::object reduce_scatter(Given x, Given out, Given op, Given factor, Given algorithm,
                                  Given timeout, Given async_op);
  nanobind::object reduce_scatter_v(Given x, Given out, Given counts, Given op, Given factor,
                                    Given algorithm, Given timeout, Given async_op);
  nanobind::object reduce(Given x, Given root, Given op, Given out, Given factor, Given algorithm,
                          Given timeout, Given async_op);
  nanobind::object gather(Given x, Given out, Given root, Given algorithm, Given timeout, Given async_op);
  nanobind::object scatter(Given x, Given out, Given root, Given algorithm, Given timeout,
                           Given async_op);
  nanobind::object all_to_all(Given x, Given out, Given algorithm, Given timeout, Given async_op);
  nanobind::object all_to_all_v(Given x, Given send_counts, Given out, Given receive_counts,
                                Given algorithm, Given timeout, Given async_op);
  nanobind::object barrier(Given timeout, Given async_op);
  nanobind::object send(Given x, Given destination, Given tag, Given timeout, Given async_op);
  nanobind::object recv(Given x, Given source, Given tag, Given timeout, Given async_op);
  // None, or (source, tag, count, bytes).
  nanobind::object probe(Given source, Given tag);

  void group_begin();
  // The Work of all operations since group_begin; without `async_op`, a finished one.
  nanobind::object group_end(Given timeout, Given async_op);
  void group_cancel();

 private:
  // Starts the operation, or notes it in the thread's open group.
  template <class Issue>
  nanobind::object run(std::shared_ptr<Operation>& operation, const CallOptions& options, Issue&& issue);
  nanobind::object work_of(std::shared_ptr<Operation> operation);
  // `name` is a literal.
  std::shared_ptr<Operation> new_operation(const char* name) {
    return std::make_shared<Operation>(Handle::Lease(handle_), name);
  }
  std::shared_ptr<Operation> take_group();
  // `make(parent, &child)` is a C call that may wait.
  template <class Make>
  std::unique_ptr<Communicator> child_of(Make make);

  std::shared_ptr<Handle> handle_;
  std::map<unsigned long, std::shared_ptr<Operation>> groups_;  // by Python thread; the GIL guards it
};

}  // namespace nezha::python
