// libfabric's calls, as modules/fabric uses them, and its tables.
#include "simulation/fabric/fake_objects.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simulation/fabric/fake_fabric.h"

namespace nezha::simulation {
namespace {

template <class Object, class Base>
Object& of(Base* base) {
  return *reinterpret_cast<Object*>(base);
}

template <class Object>
int drop(fid* base) {
  delete reinterpret_cast<Object*>(base);
  return 0;
}

// ---------------------------------------------------------------------------------------- memory

int drop_region(fid* base) {
  auto* const region = reinterpret_cast<FakeRegion*>(base);
  region->domain->targets.erase(region->base.key);
  FakeRegion::strike(region->number);
  delete region;
  return 0;
}

int register_memory(fid* base, const void* at, size_t bytes, uint64_t access, uint64_t, uint64_t key,
                    uint64_t, fid_mr** made, void*) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = drop_region};
  auto& domain = of<FakeDomain>(base);
  const bool target = (access & FI_REMOTE_WRITE) != 0;
  if (target && domain.targets.contains(key)) return -FI_ENOKEY;
  auto* const region = new FakeRegion();
  region->base.fid.fclass = FI_CLASS_MR;
  region->base.fid.ops = &ops;
  region->base.key = key;
  region->domain = &domain;
  region->at = static_cast<std::byte*>(const_cast<void*>(at));
  region->bytes = bytes;
  region->number = FakeRegion::enlist();
  region->base.mem_desc = reinterpret_cast<void*>(region->number);
  if (target) domain.targets[key] = region;
  *made = &region->base;
  return 0;
}

// ----------------------------------------------------------------------------------------- queues

ssize_t read_queue(fid_cq* base, void* buffer, size_t most) {
  auto& queue = of<FakeQueue>(base);
  auto* const entries = static_cast<fi_cq_data_entry*>(buffer);
  size_t count = 0;
  while (count < most && !queue.completions.empty() && queue.completions.front().error == 0) {
    const FakeCompletion& next = queue.completions.front();
    entries[count++] = {next.context, next.flags, next.bytes, nullptr, next.word};
    queue.completions.pop_front();
  }
  if (count > 0) return static_cast<ssize_t>(count);
  return queue.completions.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}

ssize_t read_error(fid_cq* base, fi_cq_err_entry* entry, uint64_t) {
  auto& queue = of<FakeQueue>(base);
  if (queue.completions.empty() || queue.completions.front().error == 0) return -FI_EAGAIN;
  *entry = {};
  entry->op_context = queue.completions.front().context;
  entry->flags = queue.completions.front().flags;
  entry->err = queue.completions.front().error;
  queue.completions.pop_front();
  return 1;
}

int open_queue(fid_domain*, fi_cq_attr* attributes, fid_cq** made, void*) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = drop<FakeQueue>};
  static fi_ops_cq calls{.size = sizeof(fi_ops_cq), .read = read_queue, .readerr = read_error};
  if (attributes->wait_obj != FI_WAIT_NONE) return -FI_ENOSYS;
  auto* const queue = new FakeQueue();
  queue->base.fid.fclass = FI_CLASS_CQ;
  queue->base.fid.ops = &ops;
  queue->base.ops = &calls;
  *made = &queue->base;
  return 0;
}

// -------------------------------------------------------------------------------------- addresses

int insert(fid_av* base, const void* address, size_t count, fi_addr_t* made, uint64_t, void*) {
  auto& table = of<FakeTable>(base);
  int port = 0;
  std::memcpy(&port, address, sizeof(port));
  *made = table.ports.size();
  table.ports.push_back(port);
  return static_cast<int>(count);
}

int open_table(fid_domain*, fi_av_attr*, fid_av** made, void*) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = drop<FakeTable>};
  static fi_ops_av calls{.size = sizeof(fi_ops_av), .insert = insert};
  auto* const table = new FakeTable();
  table->base.fid.fclass = FI_CLASS_AV;
  table->base.fid.ops = &ops;
  table->base.ops = &calls;
  *made = &table->base;
  return 0;
}

// ------------------------------------------------------------------------------------------ ports

int close_port(fid* base) {
  FakePort::close(reinterpret_cast<FakePort*>(base));
  return drop<FakePort>(base);
}

int bind_port(fid* base, fid* other, uint64_t) {
  auto& port = of<FakePort>(base);
  if (other->fclass == FI_CLASS_CQ) port.queue = reinterpret_cast<FakeQueue*>(other);
  if (other->fclass == FI_CLASS_AV) port.table = reinterpret_cast<FakeTable*>(other);
  return 0;
}

int control_port(fid*, int, void*) { return 0; }

int name_of_port(fid* base, void* name, size_t* length) {
  const int number = of<FakePort>(base).number;
  std::memcpy(name, &number, sizeof(number));
  *length = sizeof(number);
  return 0;
}

ssize_t receive(fid_ep* base, void* at, size_t bytes, void*, fi_addr_t, void* context) {
  return FakePort::receive(of<FakePort>(base), {static_cast<std::byte*>(at), bytes, context}, 0);
}

ssize_t receive_tagged(fid_ep* base, void* at, size_t bytes, void*, fi_addr_t, uint64_t, uint64_t,
                       void* context) {
  return FakePort::receive(of<FakePort>(base), {static_cast<std::byte*>(at), bytes, context}, 1);
}

ssize_t send(fid_ep* base, const void* at, size_t bytes, void*, fi_addr_t to, void* context) {
  auto& port = of<FakePort>(base);
  return FakePort::send(port, port.table->ports.at(to), {static_cast<const std::byte*>(at), bytes}, 0,
                        context);
}

ssize_t send_tagged(fid_ep* base, const void* at, size_t bytes, void*, fi_addr_t to, uint64_t,
                    void* context) {
  auto& port = of<FakePort>(base);
  return FakePort::send(port, port.table->ports.at(to), {static_cast<const std::byte*>(at), bytes}, 1,
                        context);
}

ssize_t write_data(fid_ep* base, const void* at, size_t bytes, void* local, uint64_t word, fi_addr_t to,
                   uint64_t address, uint64_t key, void* context) {
  auto& port = of<FakePort>(base);
  return FakePort::write(port, {port.table->ports.at(to), static_cast<const std::byte*>(at), bytes,
                                reinterpret_cast<uint64_t>(local), address, key, word, context});
}

int open_port(fid_domain* domain, fi_info*, fid_ep** made, void*) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_port, .bind = bind_port,
                    .control = control_port};
  static fi_ops_cm names{.size = sizeof(fi_ops_cm), .getname = name_of_port};
  static fi_ops_msg messages{.size = sizeof(fi_ops_msg), .recv = receive, .send = send};
  static fi_ops_tagged tagged{.size = sizeof(fi_ops_tagged), .recv = receive_tagged,
                              .send = send_tagged};
  static fi_ops_rma writes{.size = sizeof(fi_ops_rma), .writedata = write_data};
  auto* const port = new FakePort();
  port->base.fid.fclass = FI_CLASS_EP;
  port->base.fid.ops = &ops;
  port->base.cm = &names;
  port->base.msg = &messages;
  port->base.tagged = &tagged;
  port->base.rma = &writes;
  port->domain = &of<FakeDomain>(domain);
  FakePort::open(port);
  *made = &port->base;
  return 0;
}

// ------------------------------------------------------------------------------ fabric and domain

int open_domain(fid_fabric*, fi_info*, fid_domain** made, void*) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = drop<FakeDomain>};
  static fi_ops_domain calls{.size = sizeof(fi_ops_domain), .av_open = open_table, .cq_open = open_queue,
                             .endpoint = open_port};
  static fi_ops_mr memory{.size = sizeof(fi_ops_mr), .reg = register_memory};
  auto* const domain = new FakeDomain();
  domain->base.fid.fclass = FI_CLASS_DOMAIN;
  domain->base.fid.ops = &ops;
  domain->base.ops = &calls;
  domain->base.mr = &memory;
  *made = &domain->base;
  return 0;
}

template <class Part>
Part* copy_of(const Part* part) {
  auto* const made = static_cast<Part*>(std::calloc(1, sizeof(Part)));
  if (part != nullptr) *made = *part;
  return made;
}

char* copy_of(const char* text) { return text == nullptr ? nullptr : strdup(text); }

}  // namespace
}  // namespace nezha::simulation

using namespace nezha::simulation;  // NOLINT: the functions below have C's names

extern "C" {

NEZHA_FAKE_FABRIC fi_info* fi_dupinfo(const fi_info* info) {
  fi_info* const made = copy_of(info);
  made->next = nullptr;
  made->tx_attr = copy_of(info == nullptr ? nullptr : info->tx_attr);
  made->rx_attr = copy_of(info == nullptr ? nullptr : info->rx_attr);
  made->ep_attr = copy_of(info == nullptr ? nullptr : info->ep_attr);
  made->domain_attr = copy_of(info == nullptr ? nullptr : info->domain_attr);
  made->fabric_attr = copy_of(info == nullptr ? nullptr : info->fabric_attr);
  made->domain_attr->name = copy_of(static_cast<const char*>(made->domain_attr->name));
  made->fabric_attr->name = copy_of(static_cast<const char*>(made->fabric_attr->name));
  made->fabric_attr->prov_name = copy_of(static_cast<const char*>(made->fabric_attr->prov_name));
  return made;
}

NEZHA_FAKE_FABRIC void fi_freeinfo(fi_info* info) {
  while (info != nullptr) {
    fi_info* const next = info->next;
    std::free(info->domain_attr->name);
    std::free(info->fabric_attr->name);
    std::free(info->fabric_attr->prov_name);
    for (void* part : {static_cast<void*>(info->tx_attr), static_cast<void*>(info->rx_attr),
                       static_cast<void*>(info->ep_attr), static_cast<void*>(info->domain_attr),
                       static_cast<void*>(info->fabric_attr), static_cast<void*>(info)}) {
      std::free(part);
    }
    info = next;
  }
}

NEZHA_FAKE_FABRIC int fi_getinfo(uint32_t, const char*, const char*, uint64_t, const fi_info* hints,
                                 fi_info** found) {
  if (hints == nullptr || hints->fabric_attr->prov_name == nullptr ||
      std::strcmp(hints->fabric_attr->prov_name, FakeFabric::kProvider) != 0) {
    return -FI_ENODATA;
  }
  fi_info* const info = fi_dupinfo(hints);
  std::free(info->domain_attr->name);
  info->domain_attr->name = strdup("sim0");
  info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | (FakePort::needs_local() ? FI_MR_LOCAL : 0);
  info->domain_attr->mr_key_size = sizeof(uint64_t);
  info->domain_attr->cq_data_size = sizeof(uint64_t);
  *found = info;
  return 0;
}

NEZHA_FAKE_FABRIC int fi_fabric(fi_fabric_attr*, fid_fabric** made, void*) {
  struct FakeFabricObject {
    fid_fabric base{};
  };
  static fi_ops ops{.size = sizeof(fi_ops), .close = drop<FakeFabricObject>};
  static fi_ops_fabric calls{.size = sizeof(fi_ops_fabric), .domain = open_domain};
  auto* const fabric = new FakeFabricObject();
  fabric->base.fid.fclass = FI_CLASS_FABRIC;
  fabric->base.fid.ops = &ops;
  fabric->base.ops = &calls;
  *made = &fabric->base;
  return 0;
}

NEZHA_FAKE_FABRIC uint32_t fi_version(void) { return FI_VERSION(1, 17); }

NEZHA_FAKE_FABRIC const char* fi_strerror(int) { return "an error of the fake provider"; }

}  // extern "C"
