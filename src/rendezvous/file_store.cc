#include "rendezvous/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "base/crypto_use.h"
#include "base/descriptor.h"
#include "base/hex.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

constexpr std::string_view kSuffix = ".nezha";
constexpr time_t kExpirySeconds = 24 * 3600;
constexpr Nanoseconds kFirstPause = kMillisecond;
constexpr Nanoseconds kLongestPause = 50 * kMillisecond;

std::string reason(int number) { return std::strerror(number); }

// A key may be longer than a file name and hold any character: readable beginning, then SHA-256.
std::string file_name(std::string_view key) {
  constexpr size_t kReadable = 48;
  std::string name;
  for (const char letter : key.substr(0, kReadable)) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const CryptoUse use;
  EVP_Digest(key.data(), key.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return name + '.' + hex(std::as_bytes(std::span(digest).first(size))) + std::string(kSuffix);
}

class FileStore final : public Store {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}

  Status open_directory() {
    if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
      return failed(errno, "cannot make the directory");
    }
    // Also proves that the directory can be written, before anybody waits for a key in it.
    const auto probe = write_aside({});
    if (!probe) return probe.status();
    struct stat now {};
    const bool known = stat(probe.value().c_str(), &now) == 0;
    unlink(probe.value().c_str());
    if (!known) return Status::ok();
    NEZHA_RETURN_IF_ERROR(check_owner(now.st_uid));
    remove_expired(now.st_mtime);  // the file server's clock, which may not be ours
    return Status::ok();
  }

  Status set(std::string_view key, std::string_view value, Nanoseconds) override {
    const auto aside = write_aside(value);
    if (!aside) return wrapped("set", key, aside.status());
    if (rename(aside.value().c_str(), path_of(key).c_str()) != 0) {
      const int number = errno;
      unlink(aside.value().c_str());
      return wrapped("set", key, failed(number, "cannot rename into place"));
    }
    return Status::ok();
  }

  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      auto value = read(path_of(key));
      if (!value) return wrapped("get", key, value.status());
      if (value.value()) return std::move(*value.value());
      if (expired(deadline)) return store_timed_out(describe(), "get", key);
      backoff.sleep(deadline);
    }
  }

  Result<WipedText> set_if_absent(std::string_view key, std::string_view value,
                                  Nanoseconds deadline) override {
    const auto aside = write_aside(value);
    if (!aside) return wrapped("set_if_absent", key, aside.status());
    auto winner = link_or_read(aside.value(), key, value, deadline);
    unlink(aside.value().c_str());
    return winner;
  }

  Status remove(std::string_view key, Nanoseconds) override {
    if (unlink(path_of(key).c_str()) == 0 || errno == ENOENT) return Status::ok();
    return wrapped("remove", key, failed(errno, "cannot remove the file"));
  }

  std::string describe() const override { return "file://" + directory_; }
  bool outlives_job() const override { return true; }

 private:
  // `own`: who a new file belongs to there, which is not this user's number on every file server.
  Status check_owner(uid_t own) const {
    struct stat facts {};
    if (stat(directory_.c_str(), &facts) != 0) return failed(errno, "cannot look at the directory");
    constexpr const char* kAdvice =
        "name a directory of your own, or one that does not exist yet: it is made for you";
    if (facts.st_uid != own && facts.st_uid != 0) {
      return error(Code::invalid_argument, "store file://%s: the directory belongs to user %u, who could "
                   "change what ranks tell each other; %s", directory_.c_str(), facts.st_uid, kAdvice);
    }
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0) return Status::ok();
    return error(Code::invalid_argument, "store file://%s: the directory has mode %04o, so that others "
                 "could change what ranks tell each other; chmod go-w '%s', or %s", directory_.c_str(),
                 facts.st_mode & 07777u, directory_.c_str(), kAdvice);
  }

  std::string path_of(std::string_view key) const { return directory_ + "/" + file_name(key); }

  Status failed(int number, const char* what) const {
    const bool full = number == ENOSPC || number == EDQUOT || number == EMFILE || number == ENFILE;
    return Status(full ? Code::exhausted : Code::invalid_argument,
                  "store file://" + directory_ + ": " + what + ": " + reason(number))
        .with_errno(number);
  }

  Status wrapped(std::string_view operation, std::string_view key, const Status& status) const {
    return store_error(status.code(), describe(), operation, key, status.message())
        .with_errno(status.os_errno);
  }

  // A new file with `value` in it; its path.
  Result<std::string> write_aside(std::string_view value) const {
    static std::atomic<uint64_t> counter{0};
    std::array<char, 65> host{};
    gethostname(host.data(), host.size() - 1);
    const std::string path = directory_ + "/.aside-" + host.data() + "-" +
                             std::to_string(getpid()) + "-" +
                             std::to_string(system_clock().now()) + "-" +
                             std::to_string(counter.fetch_add(1)) + std::string(kSuffix);
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return failed(errno, "cannot create a file");
    int number = 0;
    for (size_t done = 0; done < value.size() && number == 0;) {
      const ssize_t written = write(file, value.data() + done, value.size() - done);
      if (written >= 0) {
        done += static_cast<size_t>(written);
      } else if (errno != EINTR) {
        number = errno;
      }
    }
    if (close(file) != 0 && number == 0) number = errno;  // NFS writes and complains here
    if (number == 0) return path;
    unlink(path.c_str());
    return failed(number, "cannot write a file");
  }

  // The file's content; nothing when there is no such file.
  Result<std::optional<WipedText>> read(const std::string& path) const {
    // Opening the directory makes an NFS client ask again whether the file is there.
    const Descriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return failed(errno, "cannot open the directory");
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) {
      if (errno == ENOENT || errno == ESTALE) return std::optional<WipedText>();
      return failed(errno, "cannot open a file");
    }
    WipedText value(kValueBytesMax + 1, '\0');
    size_t size = 0;
    int number = 0;
    while (size < value.size()) {
      const ssize_t got = ::read(file.get(), value.data() + size, value.size() - size);
      if (got == 0) break;
      if (got > 0) {
        size += static_cast<size_t>(got);
      } else if (errno != EINTR) {
        number = errno;
        break;
      }
    }
    if (number == ESTALE) return std::optional<WipedText>();  // replaced on the file server
    if (number != 0) return failed(number, "cannot read a file");
    if (size > kValueBytesMax) return failed(EFBIG, "a file there is not this store's");
    return std::optional(value.substr(0, size));
  }

  Result<WipedText> link_or_read(const std::string& aside, std::string_view key,
                                 std::string_view value, Nanoseconds deadline) const {
    constexpr std::string_view kOperation = "set_if_absent";
    const std::string path = path_of(key);
    Backoff backoff(kFirstPause, kLongestPause);
    for (;;) {
      const bool linked = link(aside.c_str(), path.c_str()) == 0;
      const int number = errno;
      // Over NFS an answer can be lost after the link was made; the count of links tells.
      struct stat status {};
      if (linked || (stat(aside.c_str(), &status) == 0 && status.st_nlink == 2)) {
        return WipedText(value);
      }
      if (number != EEXIST) {
        return wrapped(kOperation, key, failed(number, "cannot link (the file system must allow "
                                                       "hard links)"));
      }
      auto winner = read(path);
      if (!winner) return wrapped(kOperation, key, winner.status());
      if (winner.value()) return std::move(*winner.value());
      if (expired(deadline)) return store_timed_out(describe(), kOperation, key);
      backoff.sleep(deadline);  // removed between link and read: try to link again
    }
  }

  void remove_expired(time_t now) const {
    struct Close {
      void operator()(DIR* open) const { closedir(open); }
    };
    const std::unique_ptr<DIR, Close> listing(opendir(directory_.c_str()));
    if (listing == nullptr) return;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string path = directory_ + "/" + entry->d_name;
      struct stat status {};
      if (!std::string_view(entry->d_name).ends_with(kSuffix)) continue;
      if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      if (now - status.st_mtime > kExpirySeconds) unlink(path.c_str());
    }
  }

  std::string directory_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& directory) {
  auto store = std::make_unique<FileStore>(directory);
  NEZHA_RETURN_IF_ERROR(store->open_directory());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace nezha::rendezvous
