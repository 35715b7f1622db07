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
  using Timeout = std::optional<double>;

  explicit Communicator(std::shared_ptr<Handle> handle);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // Unfinished operations hold the handle, so it would never end by itself.
  ~Communicator() { close(0); }

  int rank = -1;
  int world_size = 0;

  bool closed() const { return handle_->closed(); }
  void close(Timeout timeout);
  void abort();
  std::unique_ptr<Communicator> split(int color, int key);
  std::unique_ptr<Communicator> create(const std::vector<int>& ranks, const char* name);
  std::unique_ptr<Communicator> shrink(Timeout timeout);
  std::string describe(const char* what);
  // Writes the flight dump and answers with the file's name.
  std::string dump_flight(const OptionalText& path);
  void load_table(const std::string& json);

  nanobind::object all_reduce(nanobind::handle x, const char* op, nanobind::handle out,
                              std::optional<double> factor, const OptionalText& algorithm,
                              Timeout timeout, bool async_op);
  nanobind::object broadcast(nanobind::handle x, int root, const OptionalText& algorithm,
                             Timeout timeout, bool async_op);
  nanobind::object all_gather(nanobind::handle x, nanobind::handle out,
                              const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object all_gather_v(nanobind::handle x, nanobind::handle out, const Counts& counts,
                                const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object reduce_scatter(nanobind::handle x, nanobind::handle out, const char* op,
                                  std::optional<double> factor, const OptionalText& algorithm,
                                  Timeout timeout, bool async_op);
  nanobind::object reduce_scatter_v(nanobind::handle x, nanobind::handle out, const Counts& counts,
                                    const char* op, std::optional<double> factor,
                                    const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object reduce(nanobind::handle x, int root, const char* op, nanobind::handle out,
                          std::optional<double> factor, const OptionalText& algorithm,
                          Timeout timeout, bool async_op);
  nanobind::object gather(nanobind::handle x, nanobind::handle out, int root,
                          const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object scatter(nanobind::handle x, nanobind::handle out, int root,
                           const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object all_to_all(nanobind::handle x, nanobind::handle out,
                              const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object all_to_all_v(nanobind::handle x, const Counts& send_counts,
                                nanobind::handle out, const Counts& receive_counts,
                                const OptionalText& algorithm, Timeout timeout, bool async_op);
  nanobind::object barrier(Timeout timeout, bool async_op);
  nanobind::object send(nanobind::handle x, int destination, int64_t tag, Timeout timeout,
                        bool async_op);
  nanobind::object recv(nanobind::handle x, std::optional<int> source, int64_t tag,
                        Timeout timeout, bool async_op);

  void group_begin();
  // The Work of all operations since group_begin; without `async_op`, a finished one.
  nanobind::object group_end(Timeout timeout, bool async_op);
  void group_cancel();

 private:
  // Starts the operation, or notes it in the thread's open group.
  template <class Issue>
  nanobind::object run(std::shared_ptr<Operation>& operation, bool async_op, Issue&& issue);
  nanobind::object work_of(std::shared_ptr<Operation> operation);
  // `name` is a literal.
  std::shared_ptr<Operation> new_operation(const char* name) {
    return std::make_shared<Operation>(Handle::Lease(handle_), name);
  }
  std::shared_ptr<Operation> take_group();
  std::unique_ptr<Communicator> child_of(const Failure& failure, nezha_comm_t child);

  std::shared_ptr<Handle> handle_;
  std::map<unsigned long, std::shared_ptr<Operation>> groups_;  // by Python thread; the GIL guards it
};

}  // namespace nezha::python
