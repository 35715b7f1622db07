#include "exchange_bridge.h"

#include <exception>

namespace nb = nanobind;

namespace nezha::python {
namespace {

// A memoryview that is released at the end: what kept it cannot reach the memory any more.
class View {
 public:
  View(const void* data, size_t size, int access)
      : view_(nb::steal(PyMemoryView_FromMemory(const_cast<char*>(static_cast<const char*>(data)),
                                                static_cast<Py_ssize_t>(size), access))) {
    if (!view_.is_valid()) throw nb::python_error();
  }
  ~View() {
    try {
      view_.attr("release")();
    } catch (const nb::python_error&) {  // something still looks at it: an error of the communicator's
    }
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const nb::object& get() const { return view_; }

 private:
  nb::object view_;
};

}  // namespace

ExchangeBridge::ExchangeBridge(nb::object comm) : comm_(std::move(comm)) {
  functions_.struct_size = sizeof(functions_);
  functions_.user = this;
  functions_.broadcast = &ExchangeBridge::broadcast;
  functions_.all_gather = &ExchangeBridge::all_gather;
}

// No exception may enter the C library.
template <class Call>
int ExchangeBridge::guarded(void* user, Call&& call) {
  nb::gil_scoped_acquire gil;
  auto* self = static_cast<ExchangeBridge*>(user);
  try {
    call(self->comm_);
    return NEZHA_OK;
  } catch (nb::python_error& error) {
    self->error_ = nb::borrow(error.value());
  } catch (const std::exception&) {  // no memory for a name
  }
  return NEZHA_INTERNAL;
}

int ExchangeBridge::broadcast(void* user, void* data, size_t size) {
  return guarded(user, [&](nb::object& comm) {
    const View view(data, size, PyBUF_WRITE);
    comm.attr("Bcast")(view.get(), 0);
  });
}

int ExchangeBridge::all_gather(void* user, const void* mine, void* all, size_t size) {
  return guarded(user, [&](nb::object& comm) {
    const View own(mine, size, PyBUF_READ);
    const View everybody(all, size * nb::cast<size_t>(comm.attr("Get_size")()), PyBUF_WRITE);
    comm.attr("Allgather")(own.get(), everybody.get());
  });
}

}  // namespace nezha::python
