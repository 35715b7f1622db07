#include "protection/authenticated_stream.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crypto_use.h"
#include "protection/record_stream.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kTagBytes = 16;
constexpr size_t kKeyBytes = 16;
constexpr size_t kTagNonceBytes = 12;
constexpr size_t kPayloadBytesMax = 32 * 1024;  // in one record
constexpr size_t kReadAheadBytes = 128 * 1024;
// Limits of one system call.
constexpr size_t kRecordsPerSend = 4;
constexpr size_t kPiecesPerSend = 128;

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// The tags of one direction, in the order of its records.
class Tagger {
 public:
  bool open(std::span<const std::byte, kKeyBytes> key) {
    const CryptoUse use;
    context_.reset(EVP_CIPHER_CTX_new());
    return context_ != nullptr &&
           EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, raw(key.data()), nullptr) == 1;
  }
  // Computes the tag of the next record, which consists of these pieces. False when OpenSSL fails,
  // which it has no reason for.
  bool tag(std::span<const iovec> pieces, std::byte* tag) {
    std::array<std::byte, kTagNonceBytes> nonce{};
    wire::store_le(nonce.data(), number_++);
    EVP_CIPHER_CTX* const at = context_.get();
    int ignored = 0;
    bool done = EVP_EncryptInit_ex(at, nullptr, nullptr, nullptr, raw(nonce.data())) == 1;
    for (const iovec& piece : pieces) {
      done = done && EVP_EncryptUpdate(at, nullptr, &ignored, static_cast<unsigned char*>(piece.iov_base),
                                       static_cast<int>(piece.iov_len)) == 1;
    }
    std::array<unsigned char, kTagBytes> nothing;
    return done && EVP_EncryptFinal_ex(at, nothing.data(), &ignored) == 1 &&
           EVP_CIPHER_CTX_ctrl(at, EVP_CTRL_GCM_GET_TAG, kTagBytes, tag) == 1;
  }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  uint64_t number_ = 0;
};

// Records for one system call; their payload is not copied.
struct Batch {
  // Adds the next record, from what is left of [*piece, end) without the first *skip bytes; returns
  // the length of its payload.
  size_t add(const iovec** piece, const iovec* end, size_t* skip);
  bool is_full() const { return records == kRecordsPerSend || count + 3 > kPiecesPerSend; }

  std::array<iovec, kPiecesPerSend> pieces;
  size_t count = 0;
  std::array<std::array<std::byte, kLengthBytes>, kRecordsPerSend> lengths;
  std::array<std::array<std::byte, kTagBytes>, kRecordsPerSend> tags;
  size_t records = 0;
  size_t bytes = 0;
};

size_t Batch::add(const iovec** piece, const iovec* end, size_t* skip) {
  auto& length = lengths[records];
  pieces[count++] = {length.data(), length.size()};
  size_t size = 0;
  while (*piece != end && size < kPayloadBytesMax && count + 1 < kPiecesPerSend) {
    const size_t part = std::min((*piece)->iov_len - *skip, kPayloadBytesMax - size);
    if (part > 0) pieces[count++] = {static_cast<std::byte*>((*piece)->iov_base) + *skip, part};
    size += part;
    *skip += part;
    if (*skip == (*piece)->iov_len) ++*piece, *skip = 0;
  }
  wire::store_le(length.data(), static_cast<uint32_t>(size));
  pieces[count++] = {tags[records++].data(), kTagBytes};
  bytes += kLengthBytes + size + kTagBytes;
  return size;
}

class AuthenticatedStream final : public RecordStream {
 public:
  AuthenticatedStream() : RecordStream(Descriptor()) {}
  // Takes the socket; false when OpenSSL has no memory, and then the caller keeps the socket.
  bool open(Descriptor& fd, const Secret& keys, bool dialer) {
    const std::span<const std::byte, kSecretBytes> both(keys.data(), kSecretBytes);
    const auto forth = both.first<kKeyBytes>();
    const auto back = both.last<kKeyBytes>();
    if (!says_.open(dialer ? forth : back) || !hears_.open(dialer ? back : forth)) return false;
    fd_ = std::move(fd);
    return true;
  }

  ssize_t send(const iovec* pieces, size_t count) override;
  ssize_t receive(const iovec* pieces, size_t count, Source source) override;
  bool has_buffered_input() const override { return checked_ > 0 || (broken_ == 0 && missing() == 0); }
  void begin_bulk() override { bulk_ = true; }

 private:
  // Hands the batch to the network, and holds what the network does not take. False: the stream is
  // broken.
  bool leave(const Batch& batch);
  size_t held() const { return in_end_ - in_begin_; }
  // How many bytes of the present record have not arrived; 0 also for a record that cannot be
  // right.
  size_t missing() const;
  size_t length() const { return wire::load_le<uint32_t>(in_.data() + in_begin_); }
  // Makes more bytes ready to be given out; false and errno when there are none now, or no more at
  // all.
  bool next_record();
  bool check_record();
  bool read_on();

  Tagger says_;
  Tagger hears_;
  bool bulk_ = false;
  std::vector<std::byte> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  size_t checked_ = 0;  // bytes from in_begin_ on that may be given out; their tag follows
};

ssize_t AuthenticatedStream::send(const iovec* pieces, size_t count) {
  if (broken_ != 0) return break_off(broken_, ""), -1;
  if (!push()) return -1;
  const iovec* const end = pieces + count;
  size_t skip = 0;  // of the present piece
  size_t taken = 0;
  while (pieces != end && pieces->iov_len == 0) ++pieces;
  while (pieces != end && unsent_ == 0) {
    Batch batch;
    while (pieces != end && !batch.is_full()) {
      const size_t first = batch.count;
      taken += batch.add(&pieces, end, &skip);
      const std::span<const iovec> record(&batch.pieces[first], batch.count - 1 - first);
      if (!says_.tag(record, batch.tags[batch.records - 1].data())) {
        return break_off(EPROTO, "OpenSSL cannot compute AES-128-GMAC"), -1;
      }
      while (pieces != end && pieces->iov_len == 0) ++pieces;
    }
    if (!leave(batch)) return -1;
  }
  return static_cast<ssize_t>(taken);
}

bool AuthenticatedStream::leave(const Batch& batch) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(batch.pieces.data());
  message.msg_iovlen = batch.count;
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN) return break_off(errno, "");
  size_t left_out = static_cast<size_t>(std::max<ssize_t>(sent, 0));
  for (size_t i = 0; i < batch.count; ++i) {
    const iovec& piece = batch.pieces[i];
    const size_t gone = std::min(left_out, piece.iov_len);
    left_out -= gone;
    append({static_cast<const std::byte*>(piece.iov_base) + gone, piece.iov_len - gone});
  }
  return true;
}

size_t AuthenticatedStream::missing() const {
  if (held() < kLengthBytes) return kLengthBytes - held();
  if (length() > kPayloadBytesMax) return 0;
  const size_t whole = kLengthBytes + length() + kTagBytes;
  return whole - std::min(whole, held());
}

bool AuthenticatedStream::check_record() {
  constexpr const char* kChanged = "received data was changed in transit: the tag of a record is "
                                   "wrong (integrity=on)";
  const std::byte* const at = in_.data() + in_begin_;
  const size_t size = length();
  if (size == 0 || size > kPayloadBytesMax) return break_off(EPROTO, kChanged);
  const iovec record{in_.data() + in_begin_, kLengthBytes + size};
  std::array<std::byte, kTagBytes> tag;
  if (!hears_.tag({&record, 1}, tag.data())) {
    return break_off(EPROTO, "OpenSSL cannot compute AES-128-GMAC");
  }
  const bool right = CRYPTO_memcmp(tag.data(), at + kLengthBytes + size, kTagBytes) == 0;
  if (!right) return break_off(EPROTO, kChanged);
  in_begin_ += kLengthBytes;
  checked_ = size;
  return true;
}

// While the connection is tested, reads no byte beyond the present record.
bool AuthenticatedStream::read_on() {
  if (in_.empty()) in_.resize(kReadAheadBytes);
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, held());
    in_end_ = held();
    in_begin_ = 0;
  }
  const size_t room = bulk_ ? in_.size() - in_end_ : missing();
  const ssize_t got = read_network(in_.data() + in_end_, room);
  in_end_ += static_cast<size_t>(got);
  // The network has no more bytes: this saves the call that would say so.
  if (bulk_ && static_cast<size_t>(got) < room) reads_left_ = 0;
  return got > 0;
}

bool AuthenticatedStream::next_record() {
  while (broken_ == 0) {
    if (missing() == 0) return check_record();
    if (!read_on()) break;
  }
  errno = broken_ != 0 ? broken_ : EAGAIN;
  return false;
}

ssize_t AuthenticatedStream::receive(const iovec* pieces, size_t count, Source source) {
  begin_reading(source);
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t done = 0; done < pieces[i].iov_len;) {
      if (checked_ == 0 && !next_record()) {
        // The reason why there are no more bytes stops the next call, too, which returns it.
        if (total > 0) return static_cast<ssize_t>(total);
        return closed_ && broken_ == 0 ? 0 : -1;
      }
      const size_t part = std::min(pieces[i].iov_len - done, checked_);
      std::memcpy(static_cast<std::byte*>(pieces[i].iov_base) + done, in_.data() + in_begin_, part);
      in_begin_ += part;
      checked_ -= part;
      if (checked_ == 0) in_begin_ += kTagBytes;
      done += part;
      total += part;
    }
  }
  return static_cast<ssize_t>(total);
}

}  // namespace

Result<std::unique_ptr<TcpStream>> open_authenticated(Descriptor& fd, const Secret& keys, bool dialer) {
  auto stream = std::make_unique<AuthenticatedStream>();
  if (!stream->open(fd, keys, dialer)) {
    return error(Code::exhausted, "OpenSSL does not give what AES-128-GMAC (integrity=on) needs");
  }
  return std::unique_ptr<TcpStream>(std::move(stream));
}

}  // namespace nezha::transport
