#include "errors.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace nezha::python {

void raise(nezha_code code, const std::string& message) { raise(code, message, nb::handle()); }

void raise(nezha_code code, const std::string& message, nb::handle cause) {
  nb::object error = nb::module_::import_("nezha.errors")
                         .attr("from_code")(static_cast<int>(code), message);
  if (cause.is_valid()) error.attr("__cause__") = cause;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

std::string last_error() {
  const char* text = nezha_last_error();
  return text != nullptr ? text : "";
}

}  // namespace nezha::python
