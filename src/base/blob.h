// Blobs: how ranks describe themselves to each other through a store.
//
// Contract: pure, any thread. Numbers have eight bytes, the low ones first. A reader never reads past its
// input: after the first impossible value `ok()` is false and everything read is empty, so callers check
// once, at the end. `Text`: std::string, or WipedText where a secret is among them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace nezha {

template <class Text = std::string>
class BlobWriter {
 public:
  BlobWriter& number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(value >> shift));
    return *this;
  }
  BlobWriter& real(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return number(bits);
  }
  BlobWriter& text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
    return *this;
  }
  Text take() { return std::move(bytes_); }

 private:
  Text bytes_;
};

class BlobReader {
 public:
  explicit BlobReader(std::string_view bytes) : left_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    if (left_.size() < sizeof(value)) return fail(), 0;
    for (size_t i = 0; i < sizeof(value); ++i) {
      value |= uint64_t{static_cast<unsigned char>(left_[i])} << (8 * i);
    }
    left_.remove_prefix(sizeof(value));
    return value;
  }
  double real() {
    const uint64_t bits = number();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::string text() { return std::string(view()); }
  // A part of the input.
  std::string_view view() {
    const uint64_t size = number();
    if (size > left_.size()) return fail(), std::string_view();
    const std::string_view value = left_.substr(0, size);
    left_.remove_prefix(size);
    return value;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }

 private:
  void fail() {
    ok_ = false;
    left_ = {};
  }
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace nezha
