#include "context/bootstrap.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "context/blob.h"

namespace nezha::context {
namespace {

constexpr uint64_t kBlobVersion = 1;
// How long one look at the store may take before the whole picture is looked at again.
constexpr Nanoseconds kLook = 200 * kMillisecond;

std::string hex(const wire::Nonce& nonce) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : nonce) {
    text += kDigits[std::to_integer<int>(byte) >> 4];
    text += kDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

struct Joined {
  std::string nonce;
  std::string agreed;
  transport::PeerAddress address;
};

bool parse_joined(const std::string& blob, Joined* joined) {
  BlobReader reader(blob);
  if (reader.number() != kBlobVersion) return false;
  joined->nonce = reader.text();
  joined->agreed = reader.text();
  joined->address.rank = static_cast<int>(reader.number());
  joined->address.host = reader.text();
  const uint64_t rails = reader.number();
  for (uint64_t i = 0; i < rails && reader.ok(); ++i) {
    transport::RailAddress rail;
    rail.name = reader.text();
    rail.address = reader.text();
    rail.prefix_length = static_cast<uint8_t>(reader.number());
    rail.port = static_cast<uint16_t>(reader.number());
    rail.local_port = static_cast<uint16_t>(reader.number());
    rail.mtu = static_cast<uint32_t>(reader.number());
    rail.speed_bits_per_s = reader.real();
    joined->address.rails.push_back(std::move(rail));
  }
  return reader.done();
}

}  // namespace

Result<wire::Secret> job_secret(const Config& config) {
  if (!config.secret.empty()) return wire::secret_from_text(config.secret);
  if (config.secret_file.empty()) return wire::random_secret();
  std::ifstream file(config.secret_file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || text.empty()) {
    return error(Code::invalid_argument, "secret_file %s cannot be read or is empty",
                 config.secret_file.c_str());
  }
  return wire::secret_from_text(text);
}

std::string host_identity() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string identity;
  std::getline(boot, identity);
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) == 0) identity += "/" + std::to_string(network.st_ino);
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return identity + "/" + name.data();
}

Bootstrap::Bootstrap(rendezvous::Store& store, const Config& config, BootstrapRequest request)
    : store_(store), config_(config), request_(std::move(request)) {}

std::string Bootstrap::join_key(int rank) const {
  return "join/" + std::to_string(request_.world_size) + "/" + std::to_string(rank);
}

std::string Bootstrap::describe_self() const {
  BlobWriter writer;
  writer.number(kBlobVersion).text(nonce_).text(config_.agreed_fingerprint_text());
  writer.number(static_cast<uint64_t>(request_.rank)).text(host_identity());
  writer.number(request_.rails.size());
  for (const transport::RailAddress& rail : request_.rails) {
    writer.text(rail.name).text(rail.address).number(rail.prefix_length).number(rail.port);
    writer.number(rail.local_port).number(rail.mtu).real(rail.speed_bits_per_s);
  }
  return writer.take();
}

Result<Session> Bootstrap::meet() {
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status();
  nonce_ = hex(*nonce);
  NEZHA_RETURN_IF_ERROR(check_world_size());
  NEZHA_RETURN_IF_ERROR(announce());
  auto welcome = request_.rank == 0 ? gather() : await_welcome();
  if (!welcome) return welcome.status();
  return parse_welcome(*welcome);
}

// A store that lives as long as the job knows the one true world size.
Status Bootstrap::check_world_size() {
  if (request_.store_outlives_job) return Status::ok();
  const std::string mine = std::to_string(request_.world_size);
  auto world = request_.rank == 0 ? store_.set_if_absent("world", mine, request_.deadline)
                                  : store_.get("world", request_.deadline);
  if (!world) {
    return error(Code::timed_out, "rank %d: rank 0 did not open the job at %s: %s", request_.rank,
                 store_.describe().c_str(), world.status().message().c_str());
  }
  if (*world == mine) return Status::ok();
  return error(Code::invalid_argument, "rank %d was started with world size %s, but the job at %s "
               "has world size %s; start every rank with the same WORLD_SIZE", request_.rank,
               mine.c_str(), store_.describe().c_str(), world->c_str());
}

Status Bootstrap::announce() {
  const std::string self = describe_self();
  if (request_.store_outlives_job) return store_.set(join_key(request_.rank), self, request_.deadline);
  auto winner = store_.set_if_absent(join_key(request_.rank), self, request_.deadline);
  if (!winner) return winner.status();
  if (*winner == self) return Status::ok();
  return error(Code::invalid_argument, "rank %d is taken: another process joined the job at %s with "
               "the same rank; give every process its own RANK", request_.rank,
               store_.describe().c_str());
}

// Rank 0: waits for everybody, then answers with everybody's words.
Result<std::string> Bootstrap::gather() {
  auto secret = job_secret(config_);
  if (!secret) return secret.status();
  const bool configured = !config_.secret.empty() || !config_.secret_file.empty();
  std::vector<std::string> joined(static_cast<size_t>(request_.world_size));
  std::string welcome;
  std::string published;
  size_t confirmed = 0;
  while (confirmed < joined.size()) {
    std::string absent;
    for (size_t rank = 0; rank < joined.size(); ++rank) {
      // Re-read on every round: a process restarted meanwhile has a fresh nonce.
      const Nanoseconds now = system_clock().now();
      const Nanoseconds until = joined[rank].empty() ? request_.deadline : now + kLook;
      auto blob = store_.get(join_key(static_cast<int>(rank)), std::min(until, request_.deadline));
      if (blob) joined[rank] = *blob;
      if (joined[rank].empty()) absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (!absent.empty()) {
      return error(Code::timed_out, "rank 0 waited at %s, but rank %s of %d did not join; raise "
                   "connect_timeout_s if they start later", store_.describe().c_str(),
                   absent.c_str(), request_.world_size);
    }
    BlobWriter writer;
    writer.number(kBlobVersion).text(nonce_);
    // A configured secret is not handed out: everybody has it, or has no business here.
    writer.text(configured ? std::string_view()
                           : std::string_view(reinterpret_cast<const char*>(secret->data()),
                                              secret->size()));
    for (const std::string& blob : joined) writer.text(blob);
    welcome = writer.take();
    if (welcome != published) NEZHA_RETURN_IF_ERROR(store_.set("welcome", welcome, request_.deadline));
    published = welcome;
    // Each rank confirms the words it read; who does not was restarted, or is about to read.
    confirmed = 1;
    for (size_t rank = 1; rank < joined.size(); ++rank) {
      const Nanoseconds until = system_clock().now() + kLook;
      const std::string key = nonce_ + "/read/" + std::to_string(rank);
      confirmed += store_.get(key, std::min(until, request_.deadline)) ? 1 : 0;
    }
    if (confirmed < joined.size() && system_clock().now() >= request_.deadline) {
      return error(Code::timed_out, "rank 0: %zu of %zu ranks did not read the welcome at %s",
                   joined.size() - confirmed, joined.size(), store_.describe().c_str());
    }
  }
  return welcome;
}

Result<std::string> Bootstrap::await_welcome() {
  while (true) {
    auto welcome = store_.get("welcome", request_.deadline);
    if (!welcome) {
      return error(Code::timed_out, "rank %d: not all ranks joined the job at %s in time: %s",
                   request_.rank, store_.describe().c_str(), welcome.status().message().c_str());
    }
    if (welcome->find(nonce_) != std::string::npos) {
      BlobReader reader(*welcome);
      reader.number();
      const std::string session = reader.text();
      NEZHA_RETURN_IF_ERROR(store_.set(session + "/read/" + std::to_string(request_.rank), "1",
                                       request_.deadline));
      return welcome;
    }
    // An earlier run's welcome: wait until rank 0 of this run replaces it.
    if (system_clock().now() >= request_.deadline) {
      return error(Code::timed_out, "rank %d: the welcome at %s never named this process; is another "
                   "process running with the same rank?", request_.rank, store_.describe().c_str());
    }
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

Result<Session> Bootstrap::parse_welcome(const std::string& welcome) const {
  BlobReader reader(welcome);
  Session session;
  const uint64_t version = reader.number();
  session.id = reader.text();
  const std::string secret = reader.text();
  if (version != kBlobVersion || (!secret.empty() && secret.size() != session.secret.size())) {
    return error(Code::invalid_argument, "rank %d: rank 0 runs another version of Nezha",
                 request_.rank);
  }
  const bool has_own = !config_.secret.empty() || !config_.secret_file.empty();
  if (!secret.empty() && has_own && request_.rank != 0) {
    return error(Code::invalid_argument, "rank %d has a configured secret, but rank 0 has none; set "
                 "NEZHA_SECRET_FILE on every rank or on none", request_.rank);
  }
  if (secret.empty()) {
    if (config_.secret.empty() && config_.secret_file.empty()) {
      return error(Code::invalid_argument, "rank %d: the job has a configured secret, but this rank "
                   "has none; set NEZHA_SECRET_FILE on every rank", request_.rank);
    }
    auto configured = job_secret(config_);
    if (!configured) return configured.status();
    session.secret = *configured;
  } else {
    std::copy_n(reinterpret_cast<const std::byte*>(secret.data()), secret.size(),
                session.secret.begin());
  }
  for (const char digit : session.id) session.job = session.job * 131 + static_cast<uint8_t>(digit);
  std::string agreed_by_zero;
  for (int rank = 0; rank < request_.world_size; ++rank) {
    Joined joined;
    if (!parse_joined(reader.text(), &joined) || joined.address.rank != rank) {
      return error(Code::invalid_argument, "rank %d cannot read what rank %d published at %s; do "
                   "they run the same version?", request_.rank, rank, store_.describe().c_str());
    }
    if (rank == 0) agreed_by_zero = joined.agreed;
    if (joined.agreed != agreed_by_zero) {
      return error(Code::mismatch, "rank %d is configured with %s, but rank 0 with %s; these must be "
                   "equal on all ranks", rank, joined.agreed.c_str(), agreed_by_zero.c_str());
    }
    session.ranks.push_back(std::move(joined.address));
  }
  return session;
}

Result<Bootstrap::LeftOut> Bootstrap::report(const Session& session, const Status& outcome,
                                             const std::vector<std::string>& left_out) {
  const std::string prefix = session.id + "/report/";
  BlobWriter writer;
  writer.number(static_cast<uint64_t>(outcome.code())).number(static_cast<uint64_t>(outcome.peer + 1));
  writer.text(outcome.message()).number(left_out.size() + request_.left_out.size());
  for (const std::string& sentence : request_.left_out) writer.text(sentence);
  for (const std::string& sentence : left_out) writer.text(sentence);
  NEZHA_RETURN_IF_ERROR(
      store_.set(prefix + std::to_string(request_.rank), writer.take(), request_.deadline));
  auto all = outcome ? hear_reports(session) : Result<LeftOut>(outcome);
  // Whatever came out: this rank needs the store no more.
  NEZHA_RETURN_IF_ERROR(store_.set(session.id + "/done/" + std::to_string(request_.rank), "1",
                                   request_.deadline));
  return all;
}

Result<Bootstrap::LeftOut> Bootstrap::hear_reports(const Session& session) {
  const std::string prefix = session.id + "/report/";
  LeftOut all(static_cast<size_t>(request_.world_size));
  for (int rank = 0; rank < request_.world_size; ++rank) {
    auto blob = store_.get(prefix + std::to_string(rank), request_.deadline);
    if (!blob) return blob.status();
    BlobReader reader(*blob);
    const auto code = static_cast<Code>(reader.number());
    const int peer = static_cast<int>(reader.number()) - 1;
    const std::string message = reader.text();
    if (code != Code::ok) return Status(code, message).with_peer(peer);
    const uint64_t sentences = reader.number();
    for (uint64_t i = 0; i < sentences && reader.ok(); ++i) {
      all[static_cast<size_t>(rank)].push_back(reader.text());
    }
  }
  return all;
}

void Bootstrap::clean_up(const Session& session, Nanoseconds patience) {
  const Nanoseconds until = system_clock().now() + patience;
  if (!request_.store_outlives_job) {
    // The store ends with rank 0, so rank 0 waits until everybody has read what it holds.
    for (int rank = 1; request_.rank == 0 && rank < request_.world_size; ++rank) {
      if (!store_.get(session.id + "/done/" + std::to_string(rank), until)) return;
    }
    return;
  }
  // Reports stay: a slower rank may still be reading them. Their keys are of no other run.
  const Nanoseconds soon = system_clock().now() + kSecond;
  for (const std::string& key : {join_key(request_.rank),
                                 session.id + "/read/" + std::to_string(request_.rank)}) {
    if (Status removed = store_.remove(key, soon); !removed) {
      NEZHA_LOG(debug, "bootstrap", "%s", removed.to_string().c_str());
    }
  }
}

}  // namespace nezha::context
