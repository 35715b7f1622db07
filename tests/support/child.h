// Child: a process of its own that works as a rank and reports through a pipe.
//
// Contract: single-threaded. The child ends when its work returns; it is killed with this object. A
// Report is a plain struct, shorter than PIPE_BUF, so that it arrives whole.
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <type_traits>

#include "support/world.h"

namespace nezha::testing {

template <typename Report>
class Child {
  static_assert(std::is_trivially_copyable_v<Report>);

 public:
  // The child's end of the pipe.
  class Pipe {
   public:
    explicit Pipe(int fd) : fd_(fd) {}
    void tell(const Report& report) const {
      if (write(fd_, &report, sizeof(report)) != sizeof(report)) _exit(1);
    }

   private:
    int fd_;
  };

  template <typename Work>  // void(const Pipe&)
  explicit Child(Work&& work) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      work(Pipe(ends[1]));
      _exit(0);
    }
    close(ends[1]);
    read_end_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    wait();
    close(read_end_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { kill(pid_, number); }
  // Until it has ended; how, in the words of waitpid().
  int wait() {
    int status = 0;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  // The next report; false when there is none within the test's patience.
  bool next(Report* report) const {
    pollfd watched{read_end_, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(kPatience_s * 1000)) != 1) return false;
    return read(read_end_, report, sizeof(*report)) == sizeof(*report);
  }

 private:
  pid_t pid_ = -1;
  int read_end_ = -1;
};

}  // namespace nezha::testing
