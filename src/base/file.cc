#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/writer.h"

namespace nezha {
namespace {

Status failed(const char* what, const std::string& path) {
  const int reason = errno;
  const bool full = reason == EMFILE || reason == ENFILE || reason == ENOMEM;
  return error(full ? Code::exhausted : Code::invalid_argument, "cannot %s file '%s': %s", what,
               path.c_str(), std::strerror(reason)).with_errno(reason);
}

// A write beyond the limit of a file's size is answered with EFBIG and with SIGXFSZ, which ends a process
// that does not expect it. While this lives the signal is held back, and at its end taken.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    const int reason = errno;
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = reason;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
  bool was_pending_ = false;
};

constinit Writer::Place file_writer(64);  // dumps and tables that wait to be written

bool write_all(int file, std::string_view text) {
  const NoSizeSignal held_back;
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Into its place at once: a secret is left nowhere else.
template <class Text>
Result<Text> read_open_file(const Descriptor& file, const std::string& path, size_t bytes_max) {
  constexpr size_t kPart = 4096;
  Text text;
  for (size_t have = 0; have < bytes_max;) {
    text.resize(std::min(have + kPart, bytes_max));
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno != EINTR) return failed("read", path);
    have += static_cast<size_t>(std::max<ssize_t>(got, 0));
    text.resize(have);
    if (got == 0) break;
  }
  return text;
}

// A pipe without a writer, or a device, must not keep us here.
Result<Descriptor> open_regular(const std::string& path, struct stat* facts) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return failed("open", path);
  if (fstat(file.get(), facts) != 0) return failed("look at", path);
  if (S_ISREG(facts->st_mode)) return file;
  return error(Code::invalid_argument, "'%s' is not a regular file", path.c_str());
}

// Why others could have written what is in it; "": nobody but this user and root could. A group that has
// its owner's number is that user's own.
std::string doubt_about(const struct stat& facts, const std::string& path) {
  const std::string file = "file '" + path + "' ";
  constexpr const char* kMeaning =
      ", who can change by it what this job does; copy it to a file of your own";
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return file + "belongs to user " + std::to_string(facts.st_uid) + kMeaning;
  }
  const mode_t others = S_IWOTH | (facts.st_gid == facts.st_uid ? 0 : S_IWGRP);
  if ((facts.st_mode & others) == 0) return "";
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", facts.st_mode & 07777u);
  return file + "can be written by others (mode " + mode.data() + ")" + kMeaning + ", or chmod go-w it";
}

Status check_private(const struct stat& facts, const std::string& path) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return error(Code::invalid_argument, "file '%s' belongs to user %u, who could change the secret in "
                 "it; it must belong to this user (%u) or to root", path.c_str(), facts.st_uid,
                 geteuid());
  }
  const mode_t refused = facts.st_uid == geteuid() ? S_IRWXO | S_IRWXG : S_IRWXO | S_IWGRP;
  if ((facts.st_mode & refused) == 0) return Status::ok();
  return error(Code::invalid_argument, "file '%s' has mode %04o: others can read or change the secret in "
               "it; chmod 600 '%s'", path.c_str(), facts.st_mode & 07777u, path.c_str());
}

}  // namespace

const char* host_name() {
  static const std::array<char, 65> name = [] {
    std::array<char, 65> text{};
    if (gethostname(text.data(), text.size() - 1) != 0) text[0] = '?';
    return text;
  }();
  return name.data();
}

std::string expand_path(std::string_view pattern, int rank) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      path += host_name();
    } else if (next == 'p') {
      path += std::to_string(getpid());
    } else if (next == 'r' && rank >= 0) {
      path += std::to_string(rank);
    } else if (next == '%') {
      path += '%';
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

bool differs_by_rank(std::string_view pattern) {
  return expand_path(pattern, 0) != expand_path(pattern, 1);
}

template <class Text>
Result<Text> read_file(const std::string& path, size_t bytes_max, std::string* doubt) {
  struct stat facts {};
  auto file = open_regular(path, &facts);
  if (!file) return file.status();
  if (doubt != nullptr) *doubt = doubt_about(facts, path);
  return read_open_file<Text>(*file, path, bytes_max);
}
template Result<std::string> read_file(const std::string& path, size_t bytes_max, std::string* doubt);
template Result<HiddenText> read_file(const std::string& path, size_t bytes_max, std::string* doubt);

Result<std::string> read_input_file(const std::string& path, size_t bytes_max) {
  std::string doubt;
  auto text = read_file(path, bytes_max, &doubt);
  if (text && !doubt.empty()) log::warn_once("files", doubt);
  return text;
}

Result<HiddenText> read_private_file(const std::string& path, size_t bytes_max) {
  struct stat facts {};
  auto file = open_regular(path, &facts);
  if (!file) return file.status();
  NEZHA_RETURN_IF_ERROR(check_private(facts, path));
  return read_open_file<HiddenText>(*file, path, bytes_max);
}

Status write_file(const std::string& path, std::string_view text, bool to_disk) {
  // In a folder that others can write to, nobody may have put a link in our way: hence O_EXCL.
  static std::atomic<uint64_t> number{0};
  const std::string fresh =
      path + ".new-" + std::to_string(getpid()) + "-" + std::to_string(number.fetch_add(1));
  unlink(fresh.c_str());  // of a process that had our id and was killed
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return failed("create", fresh);
  const bool complete = write_all(file, text) && (!to_disk || fsync(file) == 0);
  Status outcome = complete ? Status::ok() : failed("write", fresh);
  if (close(file) != 0 && outcome.is_ok()) outcome = failed("write", fresh);
  if (outcome.is_ok() && std::rename(fresh.c_str(), path.c_str()) != 0) {
    outcome = failed("replace", path);
  }
  if (!outcome.is_ok()) unlink(fresh.c_str());
  return outcome;
}

bool post_file_work(std::function<void()> work) {
  constexpr Nanoseconds kExitPatience = 2 * kSecond;
  static const int at_exit = std::atexit([] { finish_file_work(kExitPatience); });
  static_cast<void>(at_exit);
  return file_writer.get().post(std::move(work));
}

bool finish_file_work(Nanoseconds patience) noexcept {
  try {
    return file_writer.get().finish(patience);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace nezha
