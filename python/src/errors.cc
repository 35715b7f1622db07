#include "errors.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace nezha::python {

Failure failure_of(nezha_code code) {
  if (code == NEZHA_OK) return {};
  return {code, nezha_last_error(), nezha_last_error_details()};
}

void raise(nezha_code code, const std::string& message) { raise(Failure{code, message}); }

void raise(const Failure& failure, nb::handle cause) {
  // A text of this host (a path, a name) may be in another encoding.
  const std::string& text = failure.message;
  const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (!message.is_valid()) throw nb::python_error();
  nb::object error = nb::module_::import_("nezha.errors")
                         .attr("from_code")(static_cast<int>(failure.code), message, failure.details);
  if (cause.is_valid()) error.attr("__cause__") = cause;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace nezha::python
