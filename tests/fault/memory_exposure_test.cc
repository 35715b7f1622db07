// What a core dump of a rank shows: not the secret that its connections are made with, nor the text that
// it was made of.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/log.h"
#include "protection/authenticated_stream.h"
#include "protection/tls_stream.h"
#include "support/hidden_words.h"
#include "support/rail_job.h"
#include "support/temp_directory.h"

namespace nezha::testing {
namespace {

void expect_in_no_dump(const wire::Secret& secret, const std::string& what) {
  const MemoryScan scan(secret.data(), secret.size());
  size_t looked_at = 0;
  for (const std::string& place : scan.places(&looked_at)) ADD_FAILURE() << what << " is in " << place;
  EXPECT_GT(looked_at, size_t{1} << 20) << "nearly nothing was looked at";
}

// The control: a copy like any other is found.
TEST(MemoryScanItself, FindsWhatIsThere) {
  auto secret = wire::random_secret();
  ASSERT_TRUE(secret.is_ok());
  const MemoryScan scan(secret->data(), secret->size());
  size_t looked_at = 0;
  const std::string copy(reinterpret_cast<const char*>(secret->data()), secret->size());
  EXPECT_GE(scan.places(&looked_at).size(), 1u) << copy.size();
}

class MemoryExposure : public ::testing::TestWithParam<bool> {};

TEST_P(MemoryExposure, OfARunningJobsSecretAndOfAnEndedOnes) {
  log::set_level(log::Level::error);
  wire::Secret secret, tls_key;
  {
    RailJob job({.ranks = 3, .rails = 2});
    secret = job.secret();
    tls_key = wire::tls_key_of(secret);
    for (int rank = 0; rank < 3; ++rank) job.request_of(rank).tls = GetParam();
    for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_EQ(job.connections_of(0), 4);
    expect_in_no_dump(secret, "the secret of a running job");
  }
  expect_in_no_dump(secret, "the secret of a job that has ended");
  expect_in_no_dump(tls_key, "the key of encrypted rails");
}

INSTANTIATE_TEST_SUITE_P(Tls, MemoryExposure, ::testing::Bool());

// ------------------------------------------------------------------------------- connections that are up

using Streams = std::array<std::unique_ptr<transport::TcpStream>, 2>;

// Both ends of a connection, negotiated.
template <class Open>
Streams streams_by(const Open& open) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  Streams streams;
  for (const bool dialer : {true, false}) {
    Descriptor fd(ends[dialer ? 0 : 1]);
    auto made = open(fd, dialer);
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    streams[dialer ? 0 : 1] = std::move(*made);
  }
  std::byte none{};
  const iovec piece{&none, 1};
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_LT(streams[turn % 2]->receive(&piece, 1, transport::TcpStream::Source::network), 1);
  }
  EXPECT_TRUE(streams[0]->is_open() && streams[1]->is_open());
  return streams;
}

TEST(StreamExposure, OfTheKeyOfAnEncryptedConnection) {
  const auto key = transport::TlsKey::create(*wire::random_secret());
  const Streams streams =
      streams_by([&](Descriptor& fd, bool dialer) { return key->open(fd, dialer); });
  expect_in_no_dump(key->psk(), "the key of encrypted rails, of a connection that is up,");
}

TEST(StreamExposure, OfTheKeysOfAnAuthenticatedConnection) {
  const wire::Secret job = *wire::random_secret();
  const wire::Secret keys = wire::integrity_keys_of(job, wire::Hello(), wire::Nonce());
  {
    const Streams streams = streams_by([&](Descriptor& fd, bool dialer) {
      return transport::open_authenticated(fd, keys, dialer);
    });
    expect_in_no_dump(keys, "the keys of an authenticated connection that is up");
  }
  // OpenSSL has each half, for one direction, as long as there is the connection.
  size_t looked_at = 0;
  for (const size_t half : {size_t{0}, wire::kSecretBytes / 2}) {
    EXPECT_TRUE(MemoryScan(keys.data() + half, wire::kSecretBytes / 2).places(&looked_at).empty());
  }
}

// ------------------------------------------------------------------------------------------- its text

// Readable by its owner alone; nothing of it stays in memory.
void write_private(const std::string& path, const HiddenText& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(file);
}

enum class Way : uint8_t { code, secret_file, configuration_file, variable };

class TextExposure : public ::testing::TestWithParam<Way> {};

TEST_P(TextExposure, IsWipedWhereTheLibraryHadIt) {
  log::set_level(log::Level::error);
  const TempDirectory folder;
  const std::string path = folder.path() + "/given";
  const HiddenText text = fresh_text();
  HiddenText line;
  switch (GetParam()) {
    case Way::code:
      line.append("secret=").append(text).append("\n");
      break;
    case Way::secret_file:
      write_private(path, text);
      line.append("secret_file=").append(path).append("\n");
      break;
    case Way::configuration_file:
      write_private(path, HiddenText("secret=").append(text));
      setenv("NEZHA_CONF_FILE", path.c_str(), 1);
      break;
    case Way::variable:
      setenv("NEZHA_SECRET", text.c_str(), 1);
      break;
  }
  size_t looked_at = 0;
  const MemoryScan scan = scan_for(text);
  // The environment is the program's: what it starts inherits it.
  const size_t owned = GetParam() == Way::variable ? 1 : 0;
  EXPECT_EQ(scan.places(&looked_at).size(), owned) << "before anything has happened";
  {
    const Pair pair(line);
    EXPECT_TRUE(pair.works());
    EXPECT_EQ(scan.places(&looked_at).size(), owned) << "while the job runs";
  }
  const auto places = scan.places(&looked_at);
  EXPECT_EQ(places.size(), owned) << "when the job has ended, " << (places.empty() ? "" : places.back());
  EXPECT_GT(looked_at, size_t{1} << 20) << "nearly nothing was looked at";
  unsetenv("NEZHA_SECRET");
  unsetenv("NEZHA_CONF_FILE");
}

INSTANTIATE_TEST_SUITE_P(Ways, TextExposure,
                         ::testing::Values(Way::code, Way::secret_file, Way::configuration_file,
                                           Way::variable));

// ------------------------------------------------------------------------------------ a real core file

// A rank's process that dies in the middle of a job, in a folder of its own.
[[noreturn]] void die_in_a_job(const std::string& folder, const HiddenText& line,
                               const HiddenText& mark) {
  const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  if (chdir(folder.c_str()) != 0 || setrlimit(RLIMIT_CORE, &all) != 0) _exit(2);
  prctl(PR_SET_DUMPABLE, 1);
  signal(SIGABRT, SIG_DFL);
  const std::string control(mark);
  const Pair pair(line);
  if (!pair.works() || control.empty()) _exit(3);
  abort();
}

std::string core_in(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("core")) return entry.path();
  }
  return "";
}

TEST(CoreFile, HasNoSecretInIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer's own memory would be dumped, too";
#endif
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (!pattern.starts_with("core")) {
    GTEST_SKIP() << "core files do not come where the process was: core_pattern is '" << pattern << "'";
  }
  const TempDirectory folder;
  const HiddenText text = fresh_text(), mark = fresh_text();
  const wire::Secret secret = wire::secret_from_text(text);
  write_private(folder.path() + "/given", text);
  const HiddenText line("secret_file=" + folder.path() + "/given\n");
  const pid_t rank = fork();
  if (rank == 0) die_in_a_job(folder.path(), line, mark);
  int status = 0;
  ASSERT_EQ(waitpid(rank, &status, 0), rank);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "core files are not allowed here";
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  const std::string core = core_in(folder.path());
  if (core.empty()) GTEST_SKIP() << "the system wrote no core file into " << folder.path();
  size_t looked_at = 0;
  EXPECT_GE(scan_for(mark).places_in(core, &looked_at).size(), 1u) << "the control is not there";
  EXPECT_GT(looked_at, size_t{1} << 20) << "a core file without the rank's memory";
  EXPECT_TRUE(scan_for(text).places_in(core, &looked_at).empty()) << "the text of the secret";
  EXPECT_TRUE(MemoryScan(secret.data(), secret.size()).places_in(core, &looked_at).empty());
}

}  // namespace
}  // namespace nezha::testing
