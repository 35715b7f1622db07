#include "fabric/fabric_rail.h"

#include <csignal>

#include "fabric/fabric_device.h"
#include "wire/handshake.h"
#include "wire/little_endian.h"

namespace nezha::transport {

namespace {

// Providers that stand on sockets write to broken ones without asking for an error instead of the signal,
// which would end the process. Whoever handles it is left alone.
void survive_broken_pipes() {
  struct sigaction present {};
  if (sigaction(SIGPIPE, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  signal(SIGPIPE, SIG_IGN);
}

}  // namespace

Result<std::unique_ptr<FabricRail>> FabricRail::open(const std::string& provider,
                                                     const std::string& domain,
                                                     const std::string& address) {
  auto library = FabricLibrary::open();
  if (!library) return library.status();
  NEZHA_RETURN_IF_ERROR(check_provider(**library, provider));
  const FabricLibrary::Info hints = rail_hints(**library, provider);
  if (hints == nullptr) return error(Code::exhausted, "no memory to open a rail of %s", provider.c_str());
  int reason = 0;
  const FabricLibrary::Info found = (*library)->find(*hints, address, &reason);
  const fi_info* chosen = found.get();
  const auto fits = [&](const fi_info& info) {
    return provider == info.fabric_attr->prov_name &&
           (domain.empty() || (info.domain_attr->name != nullptr && domain == info.domain_attr->name));
  };
  while (chosen != nullptr && !fits(*chosen)) chosen = chosen->next;
  if (chosen == nullptr) {
    return error(Code::unsupported, "libfabric %s has no provider %s for device '%s', address '%s' (%s); "
                 "see fi_info -p '%s'", (*library)->version().c_str(), provider.c_str(), domain.c_str(),
                 address.c_str(), reason == 0 ? "none fits" : (*library)->explain(reason).c_str(),
                 provider.c_str());
  }
  FabricLibrary::Info info = (*library)->copy(*chosen);
  if (info == nullptr) return error(Code::exhausted, "no memory to open a rail of %s", provider.c_str());
  std::unique_ptr<FabricRail> rail(new FabricRail(**library, std::move(info)));
  NEZHA_RETURN_IF_ERROR(rail->open());
  return rail;
}

Status FabricRail::open() {
  const char* const device = info_->domain_attr->name;
  name_ = info_->fabric_attr->prov_name + std::string(", ") + (device == nullptr ? "" : device);
  keeps_ports_ = provider() == "shm";
  tells_by_message_ = tells_writes_by_message(provider());
  isolates_ports_ = provider() == "net";
  eager_bytes_ = eager_bytes_of(provider());
  const uint32_t format = info_->addr_format;
  if (format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6) survive_broken_pipes();
  auto seed = wire::random_nonce();
  if (!seed) return seed.status();
  key_state_ = wire::load_le<uint64_t>(seed->data());
  int reason = library_.open_fabric(info_->fabric_attr, &fabric_);
  if (reason == 0) reason = fi_domain(fabric_, info_.get(), &domain_, nullptr);
  if (reason == 0) return Status::ok();
  return error(Code::exhausted, "cannot open the rail %s: %s; raise the limits of descriptors and of "
               "locked memory (ulimit -n, ulimit -l)", name_.c_str(), library_.explain(reason).c_str());
}

Result<std::unique_ptr<FabricRail>> FabricRail::another() const {
  FabricLibrary::Info info = library_.copy(*info_);
  if (info == nullptr) return error(Code::exhausted, "no memory for the rail %s again", name_.c_str());
  std::unique_ptr<FabricRail> rail(new FabricRail(library_, std::move(info)));
  NEZHA_RETURN_IF_ERROR(rail->open());
  return rail;
}

std::string FabricRail::net_device() const {
  const char* const domain = info_->domain_attr->name;
  return domain == nullptr ? "" : net_device_of(domain);
}

void FabricRail::keep(fid* endpoint, fid* addresses, fid* queue) {
  for (fid* each : {endpoint, addresses, queue}) {
    if (each != nullptr) kept_.push_back(each);
  }
}

FabricRail::~FabricRail() {
  for (fid* each : kept_) fi_close(each);
  if (domain_ != nullptr) fi_close(&domain_->fid);
  if (fabric_ != nullptr) fi_close(&fabric_->fid);
}

// Where we choose the keys, nobody guesses one (splitmix64, Steele, Lea and Flood 2014).
uint64_t FabricRail::next_key() {
  uint64_t key = key_state_ += 0x9E3779B97F4A7C15;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EB;
  key ^= key >> 31;
  const size_t bytes = info_->domain_attr->mr_key_size;
  return bytes >= sizeof(key) ? key : key & ((uint64_t{1} << (8 * bytes)) - 1);
}

Status FabricRail::enlist(const std::byte* begin, size_t bytes, uint64_t access, fid_mr** region) {
  constexpr int kTries = 4;  // a key that is in use
  int reason = -FI_ENOKEY;
  for (int i = 0; i < kTries && reason == -FI_ENOKEY; ++i) {
    reason = fi_mr_reg(domain_, begin, bytes, access, 0, next_key(), 0, region, nullptr);
  }
  if (reason == 0) return Status::ok();
  *region = nullptr;
  return error(Code::exhausted, "rail %s cannot register %zu bytes: %s; raise the limit of locked memory "
               "(ulimit -l)", name_.c_str(), bytes, library_.explain(reason).c_str());
}

Status FabricRail::register_local(const std::byte* begin, size_t bytes, fid_mr** region) {
  *region = nullptr;
  if (!needs_local()) return Status::ok();
  return enlist(begin, bytes, FI_SEND | FI_RECV | FI_WRITE, region);
}

Status FabricRail::register_target(std::byte* begin, size_t bytes, fid_mr** region,
                                   RemoteMemory* remote) {
  NEZHA_RETURN_IF_ERROR(enlist(begin, bytes, FI_REMOTE_WRITE, region));
  const bool virtual_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  remote->address = virtual_address ? reinterpret_cast<uint64_t>(begin) : 0;
  remote->key = fi_mr_key(*region);
  return Status::ok();
}

void FabricRail::forget(fid_mr*& region) {
  if (region != nullptr) fi_close(&region->fid);
  region = nullptr;
}

}  // namespace nezha::transport
