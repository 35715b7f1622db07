// Messages between the ranks of a FakeWorld: their buffers, Works, and what they must contain.
//
// Contract: one thread; lives inside the world's life. Every send has contents of its own.
#pragma once

#include <cstring>
#include <deque>
#include <vector>

#include "support/fake_world.h"

namespace nezha::testing {

struct Mail {
  int rank = 0;  // who sends or receives
  int peer = 0;
  uint32_t tag = 0;
  Status submitted;
  engine::Work work;
  std::vector<float> data;

  bool done() const { return work.is_done(); }
  bool ok() const { return done() && work.status().is_ok(); }
};

// Messages of so many bytes are copied.
inline constexpr uint64_t kInlineBytes = 1024;

inline FakeWorldOptions mail_options(int ranks) {
  FakeWorldOptions options;
  options.ranks = ranks;
  options.inline_bytes = kInlineBytes;
  return options;
}

class MailCase {
 public:
  MailCase(FakeWorld& world, int ranks) : world_(world), ranks_(ranks) {}
  // The engines let go of the buffers, also when a test ends in the middle.
  ~MailCase() {
    for (int rank = 0; rank < ranks_; ++rank) {
      world_.engine(rank).failures().fail(world_.group(rank), error(Code::aborted, "the test ended"),
                                          false);
    }
    world_.run_engines();
  }
  MailCase(const MailCase&) = delete;
  MailCase& operator=(const MailCase&) = delete;

  Mail& send(int rank, int to, uint32_t tag, size_t count, Nanoseconds deadline = kNever) {
    Mail& mail = add(rank, to, tag);
    mail.data.resize(count);
    for (size_t i = 0; i < count; ++i) mail.data[i] = static_cast<float>(serial_ * 1009 + i % 8191);
    ++serial_;
    return start(mail, true, deadline);
  }
  Mail& receive(int rank, int from, uint32_t tag, size_t count, Nanoseconds deadline = kNever) {
    Mail& mail = add(rank, from, tag);
    mail.data.assign(count, -1);
    return start(mail, false, deadline);
  }
  bool all_done() const {
    for (const Mail& mail : mails_) {
      if (mail.submitted.is_ok() && !mail.done()) return false;
    }
    return true;
  }
  // Everything that must arrive does, in an order of arrivals chosen by `seed`.
  bool finish(uint64_t seed = 1) {
    return world_.run_until([&] { return all_done(); }, seed);
  }
  std::deque<Mail>& mails() { return mails_; }

 private:
  Mail& add(int rank, int peer, uint32_t tag) {
    Mail& mail = mails_.emplace_back();
    mail.rank = rank;
    mail.peer = peer;
    mail.tag = tag;
    return mail;
  }
  Mail& start(Mail& mail, bool is_send, Nanoseconds deadline) {
    engine::MessageRequest request;
    request.is_send = is_send;
    request.buffer = mail.data.data();
    request.count = mail.data.size();
    request.dtype = Dtype::float32;
    request.peer = mail.peer;
    request.tag = mail.tag;
    request.deadline = deadline;
    mail.submitted = world_.engine(mail.rank).submit_message(world_.group(mail.rank), request, mail.work);
    return mail;
  }

  FakeWorld& world_;
  const int ranks_;
  std::deque<Mail> mails_;
  uint64_t serial_ = 1;
};

}  // namespace nezha::testing
