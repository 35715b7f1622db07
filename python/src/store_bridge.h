// StoreBridge: a Python object with set, get, set_if_absent and remove (_startup/stores.py), as the C
// callbacks of a nezha store.
//
// Contract: created and destroyed with the GIL held; the callbacks take it themselves and may come
// from any thread. An exception becomes the code it carries (or timed_out, internal), and the first
// one except for timeouts is kept as the cause of the error that nezha_init then reports. After one that
// is no Exception (Ctrl-C) all further calls fail with `aborted`.
#pragma once

#include <nanobind/nanobind.h>

#include "nezha/nezha.h"

namespace nezha::python {

class StoreBridge {
 public:
  explicit StoreBridge(nanobind::object store);
  StoreBridge(const StoreBridge&) = delete;
  StoreBridge& operator=(const StoreBridge&) = delete;

  const nezha_store_callbacks* callbacks() const { return &callbacks_; }
  // The first exception that is no timeout, or an invalid handle.
  nanobind::handle first_error() const { return first_error_; }

 private:
  static int set(void* user, const char* key, const void* value, size_t size, double timeout_s);
  static int get(void* user, const char* key, void* value, size_t* size, double timeout_s);
  static int set_if_absent(void* user, const char* key, const void* value, size_t size,
                           void* winner, size_t* winner_size, double timeout_s);
  static int remove(void* user, const char* key, double timeout_s);

  bool interrupted() const;
  template <class Call>
  static int guarded(void* user, Call&& call);
  int code_of(nanobind::python_error& error);

  nanobind::object store_;
  nanobind::object first_error_;
  nezha_store_callbacks callbacks_{};
};

}  // namespace nezha::python
