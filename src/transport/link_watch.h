// LinkWatch: hears from the kernel when the device of a rail loses its carrier or has it again, and when
// devices come or get addresses.
//
// Contract: progress lock held. Needs no privilege; where the kernel does not tell (a sandbox), there
// is no watch and the job goes on without: a dead carrier then shows as silence. Devices are taken to
// be up at first, and the kernel is asked at once. The first device that has a rail's name stays the
// rail's under another name. `changed` and `appeared` are called from the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "progress/loop.h"

namespace nezha::transport {

class LinkWatch final : private progress::Pollable {
 public:
  using Changed = std::function<void(int rail, bool up)>;
  using Appeared = std::function<void()>;

  // `devices` by rail. Null when the kernel does not tell.
  static std::unique_ptr<LinkWatch> open(progress::Loop& loop, const std::vector<std::string>& devices,
                                         Changed changed, Appeared appeared);
  ~LinkWatch() override;

 private:
  // The largest number of reads in one turn of the loop; further messages wait for the next turn.
  static constexpr int kReadsPerTurn = 16;

  LinkWatch(progress::Loop& loop, Descriptor fd, const std::vector<std::string>& devices,
            Changed changed, Appeared appeared);
  void on_ready(uint32_t epoll_events) override;
  // Asks the kernel to describe all devices.
  void ask();
  void read_messages(const std::byte* bytes, size_t size);
  void note_device(const std::string& device, int index, bool up);
  void note_end(int index);
  void note_carrier(size_t rail, bool up);

  struct Rail {
    std::string device;
    int index = 0;  // 0: no device has the name yet, or any more
    bool up = true;
  };

  progress::Loop& loop_;
  const Descriptor fd_;
  const Changed changed_;
  const Appeared appeared_;
  std::vector<Rail> rails_;
};

}  // namespace nezha::transport
