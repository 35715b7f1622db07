#include "store_bridge.h"

#include <cstring>
#include <exception>

namespace nb = nanobind;

namespace nezha::python {
namespace {

int copy_out(nb::object value, void* target, size_t* size) {
  const nb::bytes bytes = nb::cast<nb::bytes>(value);
  const size_t capacity = *size;
  *size = bytes.size();
  if (bytes.size() > capacity) return NEZHA_EXHAUSTED;
  std::memcpy(target, bytes.c_str(), bytes.size());
  return NEZHA_OK;
}

nb::bytes to_bytes(const void* value, size_t size) {
  return nb::bytes(static_cast<const char*>(value), size);
}

}  // namespace

StoreBridge::StoreBridge(nb::object store) : store_(std::move(store)) {
  callbacks_.struct_size = sizeof(callbacks_);
  callbacks_.user = this;
  callbacks_.set = &StoreBridge::set;
  callbacks_.get = &StoreBridge::get;
  callbacks_.set_if_absent = &StoreBridge::set_if_absent;
  callbacks_.remove = &StoreBridge::remove;
}

int StoreBridge::code_of(nb::python_error& error) {
  if (error.matches(PyExc_TimeoutError)) return NEZHA_TIMED_OUT;
  const bool interruption = !error.matches(PyExc_Exception);
  if (!first_error_.is_valid() || interruption) first_error_ = nb::borrow(error.value());
  nb::object code = nb::getattr(error.value(), "code", nb::none());
  int number = NEZHA_INTERNAL;
  if (!nb::try_cast(code, number, false) || number <= NEZHA_OK) return NEZHA_INTERNAL;
  return number;
}

bool StoreBridge::interrupted() const {
  return first_error_.is_valid() && !nb::isinstance(first_error_, PyExc_Exception);
}

// No exception may enter the C library.
template <class Call>
int StoreBridge::guarded(void* user, Call&& call) {
  nb::gil_scoped_acquire gil;
  auto* self = static_cast<StoreBridge*>(user);
  // Ctrl-C in the middle of the caller's store ends the meeting, which would otherwise try again.
  if (self->interrupted()) return NEZHA_ABORTED;
  try {
    return call(self->store_);
  } catch (nb::python_error& error) {
    return self->code_of(error);
  } catch (const std::exception&) {  // a value that is no bytes object
    return NEZHA_INTERNAL;
  }
}

int StoreBridge::set(void* user, const char* key, const void* value, size_t size,
                     double timeout_s) {
  return guarded(user, [&](nb::object& store) {
    store.attr("set")(key, to_bytes(value, size), timeout_s);
    return static_cast<int>(NEZHA_OK);
  });
}

int StoreBridge::get(void* user, const char* key, void* value, size_t* size, double timeout_s) {
  return guarded(user, [&](nb::object& store) {
    return copy_out(store.attr("get")(key, timeout_s), value, size);
  });
}

int StoreBridge::set_if_absent(void* user, const char* key, const void* value, size_t size,
                               void* winner, size_t* winner_size, double timeout_s) {
  return guarded(user, [&](nb::object& store) {
    return copy_out(store.attr("set_if_absent")(key, to_bytes(value, size), timeout_s), winner,
                    winner_size);
  });
}

int StoreBridge::remove(void* user, const char* key, double timeout_s) {
  return guarded(user, [&](nb::object& store) {
    store.attr("remove")(key, timeout_s);
    return static_cast<int>(NEZHA_OK);
  });
}

}  // namespace nezha::python
