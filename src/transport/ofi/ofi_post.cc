#include "transport/ofi/ofi_post.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nezha::transport {

OfiPost::OfiPost(FabricPort& port, size_t receives)
    : port_(port), reposts_(receives > 0), receives_(std::max<size_t>(receives, 1)), sends_(kSends),
      sends_to_(kSends) {}

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

OfiPost::Address* OfiPost::enter(const std::string& name) {
  const auto known = addresses_.find(name);
  if (known != addresses_.end()) {
    ++known->second.holders;
    return &known->second;
  }
  auto at = port_.insert(name);
  if (!at) return nullptr;
  Address& address = addresses_[name];
  address = {name, *at, 1};
  return &address;
}

void OfiPost::leave(Address* address) {
  if (--address->holders > 0) return;
  port_.remove(address->at);
  addresses_.erase(addresses_.find(address->name));
}

void OfiPost::send(Address* to, std::string message, Nanoseconds until) {
  if (letters_.size() >= kLettersMax) return;
  ++to->holders;
  letters_.push_back({to, std::move(message), until});
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

bool OfiPost::post_send(const Letter& letter) {
  const uint16_t index = free_.back();
  std::byte* const at = buffer(receives_.size() + index);
  const size_t bytes = std::min(letter.message.size(), kMessageMax);
  std::memcpy(at, letter.message.data(), bytes);
  const ssize_t answer = port_.send(letter.to->at, at, bytes, region_, sends_[index]);
  if (answer == -FI_EAGAIN) return false;
  if (answer != 0) {
    send_error_ = static_cast<int>(-answer);
    leave(letter.to);
    return true;
  }
  free_.pop_back();
  sends_to_[index] = letter.to;  // holds it from now on
  return true;
}

bool OfiPost::flush(Nanoseconds now) {
  bool any = false;
  std::vector<const Address*> busy;
  for (auto at = letters_.begin(); at != letters_.end() && !free_.empty();) {
    const auto letter = at++;
    const bool waits = std::find(busy.begin(), busy.end(), letter->to) != busy.end();
    if (!waits && post_send(*letter)) {
      any = true;
    } else if (now >= letter->until) {
      leave(letter->to);
    } else {
      busy.push_back(letter->to);
      continue;
    }
    letters_.erase(letter);
  }
  return any;
}

void OfiPost::on_completion(const FabricPort::Completion& completion,
                            std::vector<std::string>* arrived) {
  if (completion.operation == nullptr) return;
  const uint16_t index = completion.operation->index;
  if (completion.operation->kind == FabricOperation::Kind::send) {
    free_.push_back(index);
    leave(sends_to_[index]);
    if (completion.error != 0) send_error_ = completion.error;
    return;
  }
  if (completion.error == 0) {
    arrived->emplace_back(reinterpret_cast<const char*>(buffer(index)), completion.bytes);
    if (!reposts_) return;
  }
  // A refusal is the provider's end; whoever waits for messages has a deadline.
  (void)post_receive(index);
}

bool OfiPost::turn(std::vector<std::string>* arrived, Nanoseconds now) {
  for (size_t left = unposted_.size(); left > 0; --left) {
    const uint16_t index = unposted_.back();
    unposted_.pop_back();
    if (!post_receive(index)) return false;
  }
  const bool sent = flush(now);
  std::array<FabricPort::Completion, 16> completions;
  const ssize_t count = port_.reap(completions.data(), completions.size());
  for (ssize_t i = 0; i < count; ++i) on_completion(completions[static_cast<size_t>(i)], arrived);
  return sent || count > 0;
}

}  // namespace nezha::transport
