#include "element_names.h"

#include <string_view>

namespace nb = nanobind;

namespace nezha::python {
namespace {

std::string sized(const char* kind, size_t bytes) { return kind + std::to_string(8 * bytes); }

}  // namespace

std::string dtype_name(nb::handle object) {
  nb::object dtype = nb::getattr(object, "dtype", nb::none());
  if (dtype.is_none()) return "of an unknown kind";
  const std::string text = nb::str(dtype).c_str();
  constexpr std::string_view kLibrary = "torch.";
  return text.starts_with(kLibrary) ? text.substr(kLibrary.size()) : text;
}

uint64_t dtype_bytes(nb::handle object) {
  nb::object dtype = nb::getattr(object, "dtype", nb::none());
  nb::object bytes = nb::getattr(dtype, "itemsize", nb::none());
  return bytes.is_none() ? 0 : nb::cast<uint64_t>(bytes);
}

std::string element_name(nb::handle object, const char* format, Py_ssize_t bytes) {
  if (nb::hasattr(object, "dtype")) return dtype_name(object);
  std::string_view code = format == nullptr ? "B" : format;
  if (code.starts_with('@') || code.starts_with('=') || code.starts_with('<')) code.remove_prefix(1);
  const auto size = static_cast<size_t>(bytes);
  if (code == "?") return "bool";
  if (code == "h" || code == "i" || code == "l" || code == "q") return sized("int", size);
  if (code == "H" || code == "I" || code == "L" || code == "Q") return sized("uint", size);
  if (code == "Zf" || code == "Zd" || code == "Zg") return sized("complex", size);
  if (code == "g") return sized("float", size);
  return "of format '" + std::string(code) + "'";
}

std::string element_name(nb::dlpack::dtype dtype) {
  const size_t bytes = dtype.bits / 8;
  using Kind = nb::dlpack::dtype_code;
  switch (static_cast<Kind>(dtype.code)) {
    case Kind::Int: return sized("int", bytes);
    case Kind::UInt: return sized("uint", bytes);
    case Kind::Float: return sized("float", bytes);
    case Kind::Complex: return sized("complex", bytes);
    case Kind::Bool: return "bool";
    default: return "of DLPack's code " + std::to_string(dtype.code) + " with " +
                    std::to_string(dtype.bits) + " bits";
  }
}

bool holds_objects(nb::handle object, const char* format) {
  nb::object dtype = nb::getattr(object, "dtype", nb::none());
  nb::object answer = nb::getattr(dtype, "hasobject", nb::none());
  if (!answer.is_none()) return nb::cast<bool>(answer);
  return format != nullptr && std::string_view(format).find('O') != std::string_view::npos;
}

}  // namespace nezha::python
