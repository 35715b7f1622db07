// Descriptors and fork(): a child has none of its parent's, and what it finds in memory closes nothing.
#include "base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace nezha {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
int any() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// What a child says.
bool holds_in_child(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) _exit(holds() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Descriptor, ClosesItselfOnce) {
  const int fd = any();
  {
    Descriptor first(fd);
    Descriptor second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_TRUE(is_open(fd));
    second = Descriptor(any());
    EXPECT_FALSE(is_open(fd));
  }
  const int kept = Descriptor(any()).release();
  EXPECT_TRUE(is_open(kept));
  close(kept);
}

TEST(Descriptor, IsClosedInAChildOnly) {
  const Descriptor mine(any());
  EXPECT_TRUE(holds_in_child([&] { return !is_open(mine.get()); }));
  EXPECT_TRUE(is_open(mine.get()));
}

TEST(Descriptor, ReleasedOnesAreInherited) {
  const int mine = Descriptor(any()).release();
  EXPECT_TRUE(holds_in_child([&] { return is_open(mine); }));
  close(mine);
}

TEST(Descriptor, TheParentsClosesNothingInTheChild) {
  Descriptor mine(any());
  EXPECT_TRUE(holds_in_child([&] {
    const int other = any();  // takes the lowest number, which is free now
    const bool is_same_number = other == mine.get();
    mine.reset(-1);
    return is_same_number && is_open(other);
  }));
}

}  // namespace
}  // namespace nezha
