#include "transport/ofi/ofi_post.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nezha::transport {

OfiPost::OfiPost(FabricPort& port, size_t receives)
    : port_(port), reposts_(receives > 0), receives_(std::max<size_t>(receives, 1)), sends_(kSends) {}

Result<std::unique_ptr<OfiPost>> OfiPost::open(FabricPort& port, size_t receives) {
  std::unique_ptr<OfiPost> post(new OfiPost(port, receives));
  const size_t bytes = (post->receives_.size() + kSends) * kMessageMax;
  post->buffers_ = std::make_unique<std::byte[]>(bytes);
  NEZHA_RETURN_IF_ERROR(
      port.rail().register_local(post->buffers_.get(), bytes, &post->region_));
  for (uint16_t i = 0; i < kSends; ++i) {
    post->sends_[i].index = i;
    post->free_.push_back(i);
  }
  for (uint16_t i = 0; i < post->receives_.size(); ++i) {
    post->receives_[i].kind = FabricOperation::Kind::receive;
    post->receives_[i].index = i;
    if (!post->reposts_) continue;
    NEZHA_RETURN_IF_ERROR(post->post_receive(i));
  }
  return post;
}

Status OfiPost::arm() { return post_receive(0); }

Status OfiPost::post_receive(size_t index) {
  const ssize_t answer = port_.receive(buffer(index), kMessageMax, region_, receives_[index]);
  if (answer == 0) return Status::ok();
  if (answer == -FI_EAGAIN) {
    unposted_.push_back(static_cast<uint16_t>(index));
    return Status::ok();
  }
  return error(Code::exhausted, "rail %s takes no buffer: %s", port_.rail().name().c_str(),
               port_.rail().library().explain(answer).c_str());
}

bool OfiPost::flush() {
  bool any = false;
  while (!outbox_.empty() && !free_.empty()) {
    const Letter& letter = outbox_.front();
    const uint16_t index = free_.back();
    std::byte* const at = buffer(receives_.size() + index);
    const size_t bytes = std::min(letter.message.size(), kMessageMax);
    std::memcpy(at, letter.message.data(), bytes);
    const ssize_t answer = port_.send(letter.to, at, bytes, region_, sends_[index]);
    if (answer == -FI_EAGAIN) break;
    if (answer != 0) send_error_ = static_cast<int>(-answer);
    if (answer == 0) free_.pop_back();
    outbox_.pop_front();
    any = true;
  }
  return any;
}

bool OfiPost::turn(std::vector<std::string>* arrived) {
  for (size_t left = unposted_.size(); left > 0; --left) {
    const uint16_t index = unposted_.back();
    unposted_.pop_back();
    if (!post_receive(index)) return false;
  }
  bool any = flush();
  std::array<FabricPort::Completion, 16> completions;
  const ssize_t count = port_.reap(completions.data(), completions.size());
  for (ssize_t i = 0; i < count; ++i) {
    const FabricPort::Completion& each = completions[static_cast<size_t>(i)];
    any = true;
    if (each.operation == nullptr) continue;
    if (each.operation->kind == FabricOperation::Kind::send) {
      free_.push_back(each.operation->index);
      if (each.error != 0) send_error_ = each.error;
      continue;
    }
    const size_t index = each.operation->index;
    if (each.error == 0) {
      arrived->emplace_back(reinterpret_cast<const char*>(buffer(index)), each.bytes);
    }
    if (!reposts_ && each.error == 0) continue;
    if (!post_receive(index)) return any;
  }
  return any;
}

}  // namespace nezha::transport
