#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <set>

#include "base/clean_text.h"
#include "base/config.h"
#include "base/file.h"
#include "base/log_sink.h"
#include "base/writer.h"

namespace nezha::log {
namespace internal {

std::atomic<uint8_t> threshold{static_cast<uint8_t>(Level::warn)};

}  // namespace internal

namespace {

constexpr size_t kLineBytes = 2048;
constexpr size_t kWarningsMax = 1000;  // remembered texts; beyond it warnings may repeat
constexpr size_t kLinesMax = 1000;     // that wait to be written
constexpr Nanoseconds kPatience = 10 * kMillisecond;
constexpr Nanoseconds kExitPatience = 2 * kSecond;
constexpr std::array<std::string_view, 5> kNames = {"error", "warn", "info", "debug", "trace"};

// The file's descriptor is never closed once lines may be going to it from other threads; a new
// file takes its number over (dup2), which is atomic.
std::atomic<int> file_descriptor{-1};
std::atomic<bool> has_named_file{false};
std::atomic<Sink> sink{nullptr};
std::atomic<WarnOnce> warn_once_elsewhere{nullptr};

std::atomic<bool> is_stuck{false};       // the line that is being written takes longer than kPatience
std::atomic<uint64_t> dropped_lines{0};  // that no line has told of

thread_local int thread_rank = -1;

constinit Writer::Place place(kLinesMax);

// Lines that wait at the end of the process are written, if they can be.
Writer& writer() {
  static const int at_exit = std::atexit([] { finish(kExitPatience); });
  static_cast<void>(at_exit);
  return place.get();
}

std::mutex& start_mutex() {
  static std::mutex mutex;
  return mutex;
}

// "2026-01-31T12:00:00.000123Z node3:4711 [rank 2] warn tcp: ", returns its length.
size_t write_head(char* line, size_t size, Level level, const char* subsystem) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 24> rank{};
  if (thread_rank >= 0) std::snprintf(rank.data(), rank.size(), "[rank %d] ", thread_rank);
  const int written = std::snprintf(
      line, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ %s:%d %s%s %s: ", parts.tm_year + 1900,
      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
      now.tv_nsec / 1000, host_name(), static_cast<int>(getpid()), rank.data(),
      name_of(level).data(), subsystem);
  return written < 0 ? 0 : std::min(static_cast<size_t>(written), size - 1);
}

// A log that cannot be written must not disturb the caller; there is nobody to tell.
void write_line(std::string_view line) {
  const int file = file_descriptor.load(std::memory_order_relaxed);
  if (::write(file < 0 ? STDERR_FILENO : file, line.data(), line.size()) < 0) errno = 0;
}

void tell_dropped() {
  const uint64_t dropped = dropped_lines.exchange(0);
  if (dropped == 0) return;
  std::array<char, kLineBytes> line;
  size_t length = write_head(line.data(), line.size(), Level::warn, "log");
  const int text = std::snprintf(line.data() + length, line.size() - length,
                                 "%llu lines were dropped while this log could not be written\n",
                                 static_cast<unsigned long long>(dropped));
  write_line({line.data(), length + static_cast<size_t>(std::max(text, 0))});
}

void put(std::string_view line) noexcept {
  try {
    const bool taken = writer().post([text = std::string(line)] {
      write_line(text);
      is_stuck.store(false);
      tell_dropped();
    });
    if (taken) {
      if (!is_stuck.load() && !finish(kPatience)) is_stuck.store(true);
      return;
    }
  } catch (const std::bad_alloc&) {
  }
  dropped_lines.fetch_add(1);
}

// A file that this user or root made. In a folder like /tmp another user may have put a link to a file of
// ours there, or a file of his own that he reads. (A link of root's is one like /dev/stderr.)
int open_log(const char* path) {
  const auto is_ours = [](const struct stat& facts) {
    return facts.st_uid == geteuid() || facts.st_uid == 0;
  };
  struct stat facts {};
  const bool is_link = lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
  const bool trusted_link = is_link && is_ours(facts);
  if (is_link && !trusted_link) {
    errno = ELOOP;
    return -1;
  }
  // Without waiting: for a reader of a pipe that nobody reads.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const int file = open(path, flags | (trusted_link ? 0 : O_NOFOLLOW), 0644);
  if (file < 0) return -1;
  const bool foreign =
      fstat(file, &facts) != 0 || (!trusted_link && S_ISREG(facts.st_mode) && !is_ours(facts));
  if (foreign || fcntl(file, F_SETFL, O_APPEND) != 0) {
    close(file);
    errno = foreign ? EPERM : errno;
    return -1;
  }
  return file;
}

}  // namespace

std::string_view name_of(Level level) {
  const auto index = static_cast<size_t>(level);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<Level> level_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Level>(i);
  }
  return std::nullopt;
}

void set_sink(Sink other) { sink.store(other, std::memory_order_release); }

void set_warn_once(WarnOnce host) { warn_once_elsewhere.store(host, std::memory_order_release); }

Level level() {
  return static_cast<Level>(internal::threshold.load(std::memory_order_relaxed));
}

void set_level(Level level) {
  internal::threshold.store(static_cast<uint8_t>(level), std::memory_order_relaxed);
}

Status set_file(std::string_view path) {
  const std::string name = expand_path(path);
  const int opened = name.empty()
                         ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                         : open_log(name.c_str());
  if (opened < 0) {
    if (name.empty()) return Status::ok();  // a daemon without stderr: nobody to tell
    const int reason = errno;
    const bool foreign = reason == ELOOP || reason == EPERM;
    return error(Code::invalid_argument, "log: cannot open log_file '%s': %s", name.c_str(),
                 foreign ? "another user made it, or a link in its place; choose another name"
                         : std::strerror(reason))
        .with_errno(reason);
  }
  finish(kPatience);  // lines of before go where they went before
  const std::lock_guard lock(start_mutex());
  has_named_file.store(!name.empty());
  const int current = file_descriptor.load();
  if (current < 0) {
    file_descriptor.store(opened);
    return Status::ok();
  }
  dup3(opened, current, O_CLOEXEC);
  close(opened);
  return Status::ok();
}

bool finish(Nanoseconds patience) noexcept {
  try {
    return writer().finish(patience);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Status start(const Config& config) {
  static std::string current_file;
  bool other_file = false;
  {
    const std::lock_guard lock(start_mutex());
    other_file = current_file != config.log_file;
  }
  if (other_file) {
    NEZHA_RETURN_IF_ERROR(set_file(config.log_file));
    const std::lock_guard lock(start_mutex());
    current_file = config.log_file;
  }
  if (const auto level = level_from_name(config.log_level)) set_level(*level);
  for (const std::string& warning : config.warnings) warn_once("config", warning);
  return Status::ok();
}

void warn_once(const char* subsystem, const std::string& text) {
  if (const WarnOnce host = warn_once_elsewhere.load(std::memory_order_acquire); host != nullptr) {
    return host(subsystem, text);
  }
  static std::set<std::string> told;
  {
    const std::lock_guard lock(start_mutex());
    if (told.size() < kWarningsMax && !told.insert(text).second) return;
  }
  NEZHA_LOG(warn, subsystem, "%s", text.c_str());
}

RankScope::RankScope(int rank) : previous_(thread_rank) { thread_rank = rank; }
RankScope::~RankScope() { thread_rank = previous_; }

void write(Level level, const char* subsystem, const char* format, ...) {
  const int saved_errno = errno;
  std::array<char, kLineBytes> line;
  const size_t room = line.size() - 1;  // for the newline
  size_t length = write_head(line.data(), room, level, subsystem);
  const size_t head = length;
  va_list arguments;
  va_start(arguments, format);
  const int text = std::vsnprintf(line.data() + length, room - length, format, arguments);
  va_end(arguments);
  if (text > 0) length = std::min(length + static_cast<size_t>(text), room - 1);
  clean_text(std::span(line).subspan(head, length - head));
  if (const Sink own = sink.load(std::memory_order_acquire); own != nullptr) {
    line[length] = '\0';
    own(level, thread_rank, subsystem, line.data() + head);
    errno = saved_errno;
    if (!has_named_file.load(std::memory_order_relaxed)) return;
  }
  line[length++] = '\n';
  put({line.data(), length});
  errno = saved_errno;
}

}  // namespace nezha::log
