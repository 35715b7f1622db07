#include "protection/record_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace nezha::transport {
namespace {

// Behind so many bytes that have left, the others move to the front.
constexpr size_t kSpentBytesMax = 256 * 1024;
// Fairness: 1 MiB in one call, also of bytes that never become payload.
constexpr int kReadsPerCall = 16;

}  // namespace

bool RecordStream::break_off(int os_errno, std::string text) {
  if (broken_ == 0) broken_ = os_errno, text_ = std::move(text);
  errno = broken_;
  return false;
}

void RecordStream::append(std::span<const std::byte> bytes) {
  if (unsent_ == 0 || out_begin_ >= kSpentBytesMax) {
    out_.erase(out_.begin(), out_.end() - static_cast<ptrdiff_t>(unsent_));
    out_begin_ = 0;
  }
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  unsent_ += bytes.size();
}

bool RecordStream::push() {
  while (unsent_ > 0) {
    const ssize_t sent =
        ::send(fd_.get(), out_.data() + out_begin_, unsent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno != EAGAIN && broken_ == 0) broken_ = errno;
      return false;
    }
    const bool all = static_cast<size_t>(sent) == unsent_;
    out_begin_ += static_cast<size_t>(sent);
    unsent_ -= static_cast<size_t>(sent);
    if (!all) {
      errno = EAGAIN;
      return false;
    }
  }
  return true;
}

void RecordStream::begin_reading(Source source) {
  source_ = source;
  reads_left_ = kReadsPerCall;
}

ssize_t RecordStream::read_network(void* to, size_t size) {
  if (closed_ || broken_ != 0) return 0;
  if (source_ == Source::buffer || reads_left_ <= 0) return 0;
  --reads_left_;
  ssize_t got;
  do {
    got = recv(fd_.get(), to, size, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) arrived_ = true;
  if (got == 0) closed_ = true;
  if (got < 0 && errno != EAGAIN) broken_ = errno;
  return std::max<ssize_t>(got, 0);
}

}  // namespace nezha::transport
