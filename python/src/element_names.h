// What elements that the library has no dtype for are called, equally whoever holds them: "bool",
// "uint16", "complex64", ">f4", "datetime64[s]", "[('a', '<f4')]".
//
// Contract: called with the GIL held.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

namespace nezha::python {

// Of the object's `dtype`, without the name of its library.
std::string dtype_name(nanobind::handle object);
// The bytes of one element, by its `dtype`; 0 when it does not say.
uint64_t dtype_bytes(nanobind::handle object);

// Of an object with the buffer protocol, whose format is a struct-module one.
std::string element_name(nanobind::handle object, const char* format, Py_ssize_t bytes);
std::string element_name(nanobind::dlpack::dtype dtype);

// Whether elements are, or contain, references to Python objects.
bool holds_objects(nanobind::handle object, const char* format);

}  // namespace nezha::python
