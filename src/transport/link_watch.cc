#include "transport/link_watch.h"

#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace nezha::transport {
namespace {

bool has_carrier(const ifinfomsg& link) {
  constexpr unsigned kNeeded = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;
  return (link.ifi_flags & kNeeded) == kNeeded;
}

std::string device_of(const nlmsghdr* message, const ifinfomsg* link) {
  auto left = static_cast<int>(IFLA_PAYLOAD(message));
  for (const rtattr* each = IFLA_RTA(link); RTA_OK(each, left); each = RTA_NEXT(each, left)) {
    if (each->rta_type != IFLA_IFNAME) continue;
    const auto* text = static_cast<const char*>(RTA_DATA(each));
    return std::string(text, strnlen(text, RTA_PAYLOAD(each)));
  }
  return "";
}

}  // namespace

std::unique_ptr<LinkWatch> LinkWatch::open(progress::Loop& loop,
                                           const std::vector<std::string>& devices,
                                           Changed changed, Appeared appeared) {
  Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl here{};
  here.nl_family = AF_NETLINK;
  here.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0) {
    NEZHA_LOG(debug, "tcp", "carriers are not watched: %s", std::strerror(errno));
    return nullptr;
  }
  std::unique_ptr<LinkWatch> watch(
      new LinkWatch(loop, std::move(fd), devices, std::move(changed), std::move(appeared)));
  if (const Status added = loop.add(watch->fd_.get(), EPOLLIN, watch.get()); !added) {
    NEZHA_LOG(debug, "tcp", "carriers are not watched: %s", added.message().c_str());
    return nullptr;
  }
  watch->ask();
  return watch;
}

LinkWatch::LinkWatch(progress::Loop& loop, Descriptor fd, const std::vector<std::string>& devices,
                     Changed changed, Appeared appeared)
    : loop_(loop), fd_(fd.release()), changed_(std::move(changed)), appeared_(std::move(appeared)) {
  for (const std::string& device : devices) rails_.push_back({device});
}

LinkWatch::~LinkWatch() { loop_.remove(fd_.get(), this); }

void LinkWatch::ask() {
  struct {
    nlmsghdr message;
    ifinfomsg link;
  } request{};
  request.message.nlmsg_len = sizeof(request);
  request.message.nlmsg_type = RTM_GETLINK;
  request.message.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (send(fd_.get(), &request, sizeof(request), MSG_DONTWAIT) < 0) {
    NEZHA_LOG(debug, "tcp", "cannot ask for the carriers: %s", std::strerror(errno));
  }
}

void LinkWatch::on_ready(uint32_t) {
  alignas(nlmsghdr) std::array<std::byte, 32 * 1024> buffer;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    sockaddr_nl from{};
    socklen_t length = sizeof(from);
    const ssize_t got = recvfrom(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &length);
    if (got < 0 && errno == ENOBUFS) {
      ask();  // messages were lost
      continue;
    }
    if (got < 0) return;
    const bool from_kernel = length == sizeof(from) && from.nl_pid == 0;
    if (from_kernel) read_messages(buffer.data(), static_cast<size_t>(got));
  }
}

void LinkWatch::read_messages(const std::byte* bytes, size_t size) {
  auto left = static_cast<int>(size);
  const auto* message = reinterpret_cast<const nlmsghdr*>(bytes);
  for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
    if (message->nlmsg_type == RTM_NEWADDR || message->nlmsg_type == RTM_NEWLINK) appeared_();
    const bool about_link =
        message->nlmsg_type == RTM_NEWLINK || message->nlmsg_type == RTM_DELLINK;
    if (!about_link || message->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) continue;
    const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
    // A bridge tells of its ports in messages of its own: a device that leaves it goes on to exist.
    if (link->ifi_family != AF_UNSPEC) continue;
    if (message->nlmsg_type == RTM_NEWLINK) {
      note_device(device_of(message, link), link->ifi_index, has_carrier(*link));
    } else {
      note_end(link->ifi_index);
    }
  }
}

void LinkWatch::note_device(const std::string& device, int index, bool up) {
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    if (rails_[rail].index == 0 && rails_[rail].device == device) rails_[rail].index = index;
    if (rails_[rail].index == index) note_carrier(rail, up);
  }
}

// A device that comes in place of the ended one has the same name and another index.
void LinkWatch::note_end(int index) {
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    if (rails_[rail].index != index) continue;
    rails_[rail].index = 0;
    note_carrier(rail, false);
  }
}

void LinkWatch::note_carrier(size_t rail, bool up) {
  if (rails_[rail].up == up) return;
  rails_[rail].up = up;
  NEZHA_LOG(info, "rails", "%s: the carrier is %s", rails_[rail].device.c_str(), up ? "back" : "gone");
  changed_(static_cast<int>(rail), up);
}

}  // namespace nezha::transport
