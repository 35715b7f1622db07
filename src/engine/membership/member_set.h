// MemberSet: a set of members of one communicator, with the bytes that it has in frames.
//
// Contract: a plain value; any thread. Member m is bit m % 8 of byte m / 8. All sets of one communicator
// have the same number of bytes; the operations below are for such sets.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

namespace nezha::engine {

class MemberSet {
 public:
  explicit MemberSet(int members = 0) : bytes_((static_cast<size_t>(members) + 7) / 8, '\0') {}
  static MemberSet all(int members) {
    MemberSet set(members);
    for (int member = 0; member < members; ++member) set.add(member);
    return set;
  }
  // Reads the bytes of a set from a frame. False: they are no set of so many members.
  bool read(const std::string& bytes, int members) {
    if (bytes.size() != (static_cast<size_t>(members) + 7) / 8 || bytes.empty()) return false;
    const auto unused = 8 * bytes.size() - static_cast<size_t>(members);
    if (static_cast<uint8_t>(bytes.back()) >= 1U << (8 - unused)) return false;
    bytes_ = bytes;
    return true;
  }
  const std::string& bytes() const { return bytes_; }

  bool has(int member) const {
    const auto at = static_cast<size_t>(member);
    return (static_cast<uint8_t>(bytes_[at / 8]) >> (at % 8) & 1) != 0;
  }
  void add(int member) {
    const auto at = static_cast<size_t>(member);
    bytes_[at / 8] = static_cast<char>(static_cast<uint8_t>(bytes_[at / 8]) | 1U << (at % 8));
  }
  void add(const MemberSet& more) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(bytes_[i] | more.bytes_[i]);
  }
  void remove(const MemberSet& others) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<char>(bytes_[i] & ~others.bytes_[i]);
    }
  }
  void keep_common(const MemberSet& other) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(bytes_[i] & other.bytes_[i]);
  }
  MemberSet without(const MemberSet& others) const {
    MemberSet rest = *this;
    rest.remove(others);
    return rest;
  }

  bool is_empty() const { return bytes_.find_first_not_of('\0') == std::string::npos; }
  bool meets(const MemberSet& other) const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((bytes_[i] & other.bytes_[i]) != 0) return true;
    }
    return false;
  }
  bool is_within(const MemberSet& other) const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((bytes_[i] & ~other.bytes_[i]) != 0) return false;
    }
    return true;
  }
  int count() const {
    int members = 0;
    for (const char byte : bytes_) members += std::popcount(static_cast<uint8_t>(byte));
    return members;
  }
  // The lowest member; -1: the set is empty.
  int lowest() const {
    const size_t at = bytes_.find_first_not_of('\0');
    if (at == std::string::npos) return -1;
    return static_cast<int>(8 * at) + std::countr_zero(static_cast<uint8_t>(bytes_[at]));
  }
  // Visits the members in ascending order.
  template <class Visit>
  void each(Visit visit) const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      for (unsigned left = static_cast<uint8_t>(bytes_[i]); left != 0; left &= left - 1) {
        visit(static_cast<int>(8 * i) + std::countr_zero(left));
      }
    }
  }
  bool operator==(const MemberSet&) const = default;

 private:
  std::string bytes_;
};

}  // namespace nezha::engine
