#include "endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>

#include "watch.h"

namespace nezha::bench {
namespace {

constexpr uint64_t kMagic = 0x4e657a6861726177;
constexpr size_t kPage = 4096;

void check(ssize_t result, const char* what) {
  if (result != 0) {
    fail("%s: %s (%zd)", what, fi_strerror(static_cast<int>(-result)), result);
  }
}

fi_info* hints_for(const Options& options) {
  fi_info* hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->cq_data_size = 4;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  return hints;
}

}  // namespace

Endpoint::Endpoint(const Options& options, const std::string& address, bool sender)
    : size_(options.size), window_(options.window),
      word_offset_((options.size * options.window + kPage - 1) / kPage * kPage),
      contexts_(options.window + 8), free_slots_(options.window) {
  for (Context& context : contexts_) free_.push_back(&context);
  std::iota(free_slots_.rbegin(), free_slots_.rend(), uint64_t{0});
  mine_ = {kMagic, options.size, options.window, options.iterations, options.verified,
           options.round_trips, options.repeats, 0, 0, 0, {}};
  open(options, address);
  open_queues();
  register_memory(sender);
}

void Endpoint::open(const Options& options, const std::string& address) {
  enter_phase("looking for the provider", 1);
  // ofi_rxm sizes its queues for 256 peers, which is more than small devices (rxe among them) can have.
  setenv("FI_UNIVERSE_SIZE", "2", 0);
  fi_info* hints = hints_for(options);
  const char* node = address.empty() ? nullptr : address.c_str();
  const int found =
      fi_getinfo(FI_VERSION(1, 17), node, nullptr, node == nullptr ? 0 : FI_SOURCE, hints, &info_);
  fi_freeinfo(hints);
  if (found != 0) {
    fail("libfabric %u.%u has no provider '%s' with reliable datagrams and RMA%s%s here (%s); "
         "`fi_info -t FI_EP_RDM` lists what there is",
         FI_MAJOR(fi_version()), FI_MINOR(fi_version()), options.provider.c_str(),
         node == nullptr ? "" : " at ", address.c_str(), fi_strerror(-found));
  }
  enter_phase("opening the endpoint", 1);
  check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
  check(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
  check(fi_endpoint(domain_, info_, &endpoint_, nullptr), "fi_endpoint");
}

void Endpoint::open_queues() {
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_DATA;
  queue.size = 4 * contexts_.size();
  check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  check(fi_av_open(domain_, &table, &addresses_, nullptr), "fi_av_open");
  check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind of the queue");
  check(fi_ep_bind(endpoint_, &addresses_->fid, 0), "fi_ep_bind of the addresses");
  check(fi_enable(endpoint_), "fi_enable");
  mine_.name_bytes = sizeof mine_.name;
  check(fi_getname(&endpoint_->fid, mine_.name, &mine_.name_bytes), "fi_getname");
}

void Endpoint::register_memory(bool sender) {
  enter_phase("registering memory", 1);
  const size_t bytes = word_offset_ + kPage;
  memory_ = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
  if (memory_ == nullptr) fail("no memory for %zu bytes", bytes);
  std::memset(memory_, 0, bytes);
  const uint64_t key = sender ? 1 : 2;
  const uint64_t access = FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE;
  const int result = fi_mr_reg(domain_, memory_, bytes, access, 0, key, 0, &region_, nullptr);
  if (result != 0) {
    fail("fi_mr_reg of %zu bytes: %s; `ulimit -l` may be too low", bytes, fi_strerror(-result));
  }
  const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  mine_.memory_address = by_address ? reinterpret_cast<uint64_t>(memory_) : 0;
  mine_.memory_key = fi_mr_key(region_);
}

Greeting Endpoint::greeting() const { return mine_; }

void Endpoint::connect(const Greeting& theirs) {
  if (theirs.magic != kMagic) fail("who answered on the side channel is not a raw_fabric");
  if (std::memcmp(&theirs.size, &mine_.size, 6 * sizeof(uint64_t)) != 0) {
    fail("the two halves were started with different options; size, window, iterations, verify, "
         "round-trips and repeats must be equal (their size %llu, window %llu)",
         static_cast<unsigned long long>(theirs.size), static_cast<unsigned long long>(theirs.window));
  }
  if (theirs.name_bytes > sizeof theirs.name) fail("the other half sent an address of impossible size");
  peer_ = theirs;
  if (fi_av_insert(addresses_, peer_.name, 1, &peer_address_, 0, nullptr) != 1) {
    fail("fi_av_insert refused the other half's address: are both using one provider?");
  }
}

Endpoint::Context* Endpoint::take(Kind kind) {
  if (free_.empty()) return nullptr;
  Context* context = free_.back();
  free_.pop_back();
  context->kind = kind;
  return context;
}

bool Endpoint::began(ssize_t result, Context* context, const char* what) {
  if (result == 0) return true;
  free_.push_back(context);
  if (result != -FI_EAGAIN) check(result, what);
  return false;
}

bool Endpoint::write_slot(uint32_t data) {
  if (free_slots_.empty()) return false;
  Context* context = take(Kind::slot_write);
  if (context == nullptr) return false;
  context->slot = free_slots_.back();
  if (!began(fi_writedata(endpoint_, slot(context->slot), size_, fi_mr_desc(region_), data,
                          peer_address_, remote(context->slot * size_), peer_.memory_key, context),
             context, "fi_writedata")) {
    return false;
  }
  free_slots_.pop_back();
  return true;
}

bool Endpoint::write_word(uint32_t data) {
  Context* context = take(Kind::word_write);
  return context != nullptr &&
         began(fi_writedata(endpoint_, word_out(), sizeof(uint64_t), fi_mr_desc(region_), data,
                            peer_address_, remote(word_offset_ + kWordStride), peer_.memory_key, context),
               context, "fi_writedata of 8 bytes");
}

bool Endpoint::send_word() {
  Context* context = take(Kind::word_send);
  return context != nullptr && began(fi_send(endpoint_, word_out(), sizeof(uint64_t),
                                             fi_mr_desc(region_), peer_address_, context),
                                     context, "fi_send");
}

bool Endpoint::receive_word() {
  Context* context = take(Kind::word_receive);
  return context != nullptr && began(fi_recv(endpoint_, word_in(), sizeof(uint64_t),
                                             fi_mr_desc(region_), FI_ADDR_UNSPEC, context),
                                     context, "fi_recv");
}

bool Endpoint::reap() {
  fi_cq_data_entry entries[16];
  const ssize_t count = fi_cq_read(queue_, entries, std::size(entries));
  if (count == -FI_EAGAIN) return false;
  if (count == -FI_EAVAIL) report_error();
  if (count < 0) check(count, "fi_cq_read");
  for (ssize_t i = 0; i < count; ++i) {
    if ((entries[i].flags & FI_REMOTE_CQ_DATA) != 0) {
      ++arrivals_;
      if (arrived_) arrived_(static_cast<uint32_t>(entries[i].data));
    } else {
      finish(static_cast<Context*>(entries[i].op_context));
    }
  }
  moved(static_cast<uint64_t>(count));
  return true;
}

void Endpoint::finish(Context* context) {
  if (context->kind == Kind::word_receive) ++received_;
  if (context->kind == Kind::slot_write) free_slots_.push_front(context->slot);
  free_.push_back(context);
}

void Endpoint::report_error() {
  fi_cq_err_entry error{};
  const ssize_t got = fi_cq_readerr(queue_, &error, 0);
  if (got < 0) check(got, "fi_cq_readerr");
  char text[128] = "";
  const char* detail =
      fi_cq_strerror(queue_, error.prov_errno, error.err_data, text, sizeof text);
  fail("an operation failed: %s (provider: %s, %d): the path is cut, or the peer has ended",
       fi_strerror(error.err), detail == nullptr ? "" : detail, error.prov_errno);
}

std::string Endpoint::library_and_provider() const {
  return "libfabric " + std::to_string(FI_MAJOR(fi_version())) + "." +
         std::to_string(FI_MINOR(fi_version())) + ", " + info_->fabric_attr->prov_name + ", domain " +
         info_->domain_attr->name;
}

}  // namespace nezha::bench
