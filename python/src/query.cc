#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "errors.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nezha::python {

void bind_query(nb::module_& module) {
  module.def(
      "query",
      [](const char* what, const char* request) {
        return whole_text([&](char* text, size_t size, size_t* needed) {
          return nezha_query(what, request, text, size, needed);
        });
      },
      "what"_a, "request"_a);
  module.def("version", [] { return std::string(nezha_version()); });
}

}  // namespace nezha::python
