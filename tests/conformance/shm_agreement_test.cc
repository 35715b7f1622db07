// How two ranks of one host come to share memory, message by message: that they do, that only they do,
// and what becomes of it where one of them cannot.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/sockets.h"
#include "transport/shm/shm_test.h"
#include "wire/handshake.h"

namespace nezha::transport {
namespace {

using Bytes = RailTest::Bytes;

// The connection beneath, which has passed its test.
class Passed final : public RailTest {
 public:
  void begin(Nanoseconds, Bytes&) override { over_ = true; }
  size_t wanted() const override { return 0; }
  void on_bytes(std::span<const std::byte>, Nanoseconds, Bytes&) override {}
  const char* late() const override { return "late"; }
};

constexpr size_t kOffer = 64;
constexpr size_t kAnswer = 8;

class ShmAgreement : public ::testing::Test {
 protected:
  void begin(bool required = false) {
    dialer_ = make(true, required);
    acceptor_ = make(false, required);
    dialer_->begin(0, to_acceptor_);
    acceptor_->begin(0, to_dialer_);
    EXPECT_TRUE(to_acceptor_.empty());
    ASSERT_EQ(to_dialer_.size(), kOffer);
  }
  std::unique_ptr<ShmTest> make(bool dialer, bool required) {
    return std::make_unique<ShmTest>(Proved{dialer, secret_, hello_, nonce_}, std::make_unique<Passed>(),
                                     required);
  }
  void tell(ShmTest& test, Bytes& from, Bytes& answers) {
    const Bytes said = std::exchange(from, {});
    EXPECT_EQ(test.wanted(), said.size());
    test.on_bytes(said, 0, answers);
  }
  void offer() { tell(*dialer_, to_dialer_, to_acceptor_); }
  void answer() { tell(*acceptor_, to_acceptor_, to_dialer_); }
  void confirm() { tell(*dialer_, to_dialer_, to_acceptor_); }
  ShmName offered_name() const {
    ShmName name;
    std::copy_n(to_dialer_.begin() + 16, name.size(), name.begin());
    return name;
  }
  // Both have come to nothing, and go on without.
  void expect_loopback() {
    for (ShmTest* test : {dialer_.get(), acceptor_.get()}) {
      EXPECT_TRUE(test->is_over());
      EXPECT_EQ(test->failure(), "");
      EXPECT_EQ(test->release_channel().segment, nullptr);
    }
  }

  const wire::Secret secret_ = wire::secret_from_text("between two");
  wire::Hello hello_;
  wire::Nonce nonce_{};
  Bytes to_dialer_;
  Bytes to_acceptor_;
  std::unique_ptr<ShmTest> dialer_;
  std::unique_ptr<ShmTest> acceptor_;
};

TEST_F(ShmAgreement, BothEndsHaveTheSameMemory) {
  const int before = testing::open_descriptors();
  {
    begin();
    offer();
    answer();
    confirm();
    EXPECT_TRUE(dialer_->is_over() && acceptor_->is_over());
    const ShmChannel maker = dialer_->release_channel();
    const ShmChannel taker = acceptor_->release_channel();
    ASSERT_NE(maker.segment, nullptr);
    ASSERT_NE(taker.segment, nullptr);
    EXPECT_TRUE(maker.is_maker && !taker.is_maker);
    for (const int ring : {0, 1}) {
      maker.segment->ring(ring).bytes[ShmSegment::kRingBytes - 1] = std::byte{0x5a};
      EXPECT_EQ(taker.segment->ring(ring).bytes[ShmSegment::kRingBytes - 1], std::byte{0x5a});
    }
    EXPECT_EQ(::write(maker.socket.get(), "x", 1), 1);
    char bell = 0;
    EXPECT_EQ(::read(taker.socket.get(), &bell, 1), 1);
    // Neither the memory's descriptor nor the listener is kept.
    EXPECT_EQ(testing::open_descriptors(), before + 2);
    dialer_.reset();
    acceptor_.reset();
  }
  EXPECT_EQ(testing::open_descriptors(), before);
}

TEST_F(ShmAgreement, AnOfferThatSomebodyChangedIsNoOffer) {
  begin();
  to_dialer_[20] ^= std::byte{1};  // leads to another socket
  offer();
  EXPECT_NE(dialer_->failure(), "");
}

// Others find the name, come first, say anything and pass whatever they have.
TEST_F(ShmAgreement, StrangersAtTheSocketAreNotHeard) {
  begin();
  Descriptor memory;
  auto segment = ShmSegment::create(&memory);
  ASSERT_TRUE(segment.is_ok());
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 6; ++i) {
    auto stranger = connect_to(offered_name());
    ASSERT_TRUE(stranger.is_ok()) << stranger.status().to_string();
    const wire::Mac nonsense{};
    if (i == 1) {
      EXPECT_EQ(::write(stranger->get(), "x", 1), 1);
    }
    if (i == 2) {
      EXPECT_TRUE(pass(*stranger, nonsense, memory).is_ok());
    }
    if (i == 3) {
      EXPECT_EQ(::write(stranger->get(), nonsense.data(), nonsense.size()), 32);
    }
    if (i == 4) {
      EXPECT_TRUE(pass(*stranger, std::span(nonsense).first(5), memory).is_ok());
    }
    if (i != 5) strangers.push_back(std::move(*stranger));
  }
  const int before = testing::open_descriptors();
  offer();
  answer();
  confirm();
  EXPECT_NE(dialer_->release_channel().segment, nullptr);
  EXPECT_NE(acceptor_->release_channel().segment, nullptr);
  EXPECT_EQ(testing::open_descriptors(), before - 1);  // the listener has gone
}

// Runs it as another user. A thread has credentials of its own, which its sockets are asked for.
void as_another_user(const std::function<void()>& work) {
  std::thread([&] {
    ASSERT_EQ(syscall(SYS_setresuid, 4711, 4711, 4711), 0);
    work();
  }).join();
}

// They come from the moment on in which the name can be found, and stay.
TEST_F(ShmAgreement, OtherUsersAtTheSocketAreNotHeard) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  begin(true);
  std::vector<Descriptor> strangers;
  as_another_user([&] {
    for (int i = 0; i < 100; ++i) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      sockaddr_un there{};
      there.sun_family = AF_UNIX;
      const ShmName name = offered_name();
      std::memcpy(there.sun_path + 1, name.data(), name.size());
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&there), size), 0) << i;
      strangers.emplace_back(fd);
    }
  });
  ASSERT_EQ(strangers.size(), 100U);
  offer();
  answer();
  confirm();
  EXPECT_EQ(dialer_->failure(), "");
  EXPECT_NE(dialer_->release_channel().segment, nullptr);
  EXPECT_NE(acceptor_->release_channel().segment, nullptr);
}

TEST_F(ShmAgreement, ASocketOfAnotherUserIsNotTakenForThePeers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const ShmName name = *wire::random_nonce();
  Descriptor listener;
  as_another_user([&] { listener = std::move(*listen_on(name)); });
  const auto connected = connect_to(name);
  ASSERT_FALSE(connected.is_ok());
  EXPECT_EQ(connected.status().code(), Code::unsupported);
  EXPECT_NE(connected.status().message().find("user 4711"), std::string::npos)
      << connected.status().message();
}

// It is full of them: no memory, and no failure.
TEST_F(ShmAgreement, ACrowdOfStrangersCostsNoMoreThanTheMemory) {
  begin();
  std::vector<Descriptor> strangers;
  while (true) {
    auto stranger = connect_to(offered_name());
    if (!stranger) break;
    strangers.push_back(std::move(*stranger));
  }
  EXPECT_GE(strangers.size(), 16U);
  offer();
  answer();
  expect_loopback();
}

TEST_F(ShmAgreement, WhereTheOtherCannotThereIsLoopback) {
  begin();
  to_dialer_[4] = std::byte{0};
  offer();
  EXPECT_TRUE(dialer_->is_over());
  EXPECT_EQ(dialer_->failure(), "");
  begin();
  offer();
  to_acceptor_[4] = std::byte{0};
  answer();
  EXPECT_TRUE(acceptor_->is_over());
  EXPECT_EQ(acceptor_->failure(), "");
}

TEST_F(ShmAgreement, WhereItIsRequiredTheDialerFails) {
  begin(true);
  to_dialer_[4] = std::byte{0};
  offer();
  EXPECT_NE(dialer_->failure().find("shm=auto"), std::string::npos) << dialer_->failure();
}

TEST_F(ShmAgreement, NonsenseEndsIt) {
  begin();
  to_dialer_[0] ^= std::byte{1};
  offer();
  EXPECT_NE(dialer_->failure(), "");
  to_acceptor_.assign(kAnswer, std::byte{7});
  answer();
  EXPECT_NE(acceptor_->failure(), "");
}

// Memory that could shrink under the reader, or is too small, is not mapped.
TEST(ShmSegments, OnlySealedMemoryOfTheRightSizeIsTaken) {
  Descriptor good;
  ASSERT_TRUE(ShmSegment::create(&good).is_ok());
  const off_t size = lseek(good.get(), 0, SEEK_END);
  EXPECT_EQ(ftruncate(good.get(), 0), -1);
  EXPECT_EQ(ftruncate(good.get(), size + 1), -1);
  const auto memory_of = [](off_t bytes, int seals) {
    Descriptor made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(made.get(), bytes), 0);
    EXPECT_EQ(fcntl(made.get(), F_ADD_SEALS, seals), 0);
    return made;
  };
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_TRUE(ShmSegment::adopt(memory_of(size, kSealed)).is_ok());
  EXPECT_FALSE(ShmSegment::adopt(memory_of(size - 4096, kSealed)).is_ok());
  EXPECT_FALSE(ShmSegment::adopt(memory_of(size, F_SEAL_GROW)).is_ok());
  EXPECT_FALSE(ShmSegment::adopt(memory_of(size, kSealed | F_SEAL_WRITE)).is_ok());
  Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(ShmSegment::adopt(null).is_ok());
  EXPECT_FALSE(ShmSegment::adopt(Descriptor()).is_ok());
}

}  // namespace
}  // namespace nezha::transport
