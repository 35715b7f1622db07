// The floor under a short all_reduce: recursive doubling over plain TCP, one connection a pair, one send
// and one receive a round, and no protocol but a header of 64 bytes.
//
//   floor RANK ADDRESS,ADDRESS,... COUNT SPIN_US BYTES...
//
// A power of two of ranks. A waiting rank tries again for SPIN_US, yielding, before it sleeps in poll(2),
// as Nezha does. Prints a line of JSON for each size: the times of COUNT operations on this rank. Checks
// every result. bench/short_path.py compiles and runs it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kFirstPort = 7000;
constexpr int kWarmUp = 200;

struct Header {
  uint32_t operation = 0;
  uint32_t round = 0;
  uint32_t length = 0;
  uint32_t unused[13] = {};
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

double now_us() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double processor_us() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto us = [](timeval time) { return time.tv_sec * 1e6 + static_cast<double>(time.tv_usec); };
  return us(used.ru_utime) + us(used.ru_stime);
}

sockaddr_in address_of(const std::string& host, int rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(kFirstPort + rank));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) die(host.c_str());
  return address;
}

class World {
 public:
  World(int rank, const std::vector<std::string>& hosts, double spin_us)
      : rank_(rank), size_(static_cast<int>(hosts.size())), spin_us_(spin_us), peers_(hosts.size(), -1) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in own = address_of(hosts[static_cast<size_t>(rank)], rank);
    if (bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) die("bind");
    if (listen(listener, 64) != 0) die("listen");
    for (int peer = 0; peer < rank; ++peer) dial(peer, hosts[static_cast<size_t>(peer)]);
    for (int left = size_ - rank - 1; left > 0; --left) {
      const int fd = accept(listener, nullptr, nullptr);
      int peer = -1;
      if (fd < 0 || read(fd, &peer, sizeof(peer)) != sizeof(peer)) die("accept");
      peers_[static_cast<size_t>(peer)] = fd;
    }
    for (const int fd : peers_) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    close(listener);
  }

  void all_reduce(std::vector<float>& values) {
    ++operation_;
    arrived_.resize(values.size());
    uint32_t round = 0;
    for (int distance = 1; distance < size_; distance *= 2, ++round) {
      const int fd = peers_[static_cast<size_t>(rank_ ^ distance)];
      send(fd, round, values);
      receive(fd, round);
      for (size_t i = 0; i < values.size(); ++i) values[i] += arrived_[i];
    }
  }

 private:
  void dial(int peer, const std::string& host) {
    const sockaddr_in address = address_of(host, peer);
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        if (write(fd, &rank_, sizeof(rank_)) != sizeof(rank_)) die("write");
        peers_[static_cast<size_t>(peer)] = fd;
        return;
      }
      close(fd);
      usleep(10'000);
    }
    die("connect");
  }

  // Short enough for the socket's buffer.
  void send(int fd, uint32_t round, const std::vector<float>& values) {
    const auto bytes = values.size() * sizeof(float);
    Header header{operation_, round, static_cast<uint32_t>(bytes)};
    iovec pieces[2] = {{&header, sizeof(header)}, {const_cast<float*>(values.data()), bytes}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(header) + bytes)) die("send");
  }

  void receive(int fd, uint32_t round) {
    Header header;
    const size_t wanted = arrived_.size() * sizeof(float);
    size_t done = 0;
    double since = 0;
    while (done < sizeof(header) + wanted) {
      iovec pieces[2] = {{reinterpret_cast<char*>(&header) + std::min(done, sizeof(header)),
                          sizeof(header) - std::min(done, sizeof(header))},
                         {reinterpret_cast<char*>(arrived_.data()), wanted}};
      if (done > sizeof(header)) {
        pieces[1].iov_base = reinterpret_cast<char*>(arrived_.data()) + (done - sizeof(header));
        pieces[1].iov_len = sizeof(header) + wanted - done;
      }
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      const ssize_t came = recvmsg(fd, &message, MSG_DONTWAIT);
      if (came == 0 || (came < 0 && errno != EAGAIN)) die("receive");
      if (came > 0) done += static_cast<size_t>(came);
      else wait(fd, &since);
    }
    if (header.operation != operation_ || header.round != round || header.length != wanted) die("order");
  }

  void wait(int fd, double* since) {
    const double now = now_us();
    if (*since == 0) *since = now;
    if (now - *since < spin_us_) {
      sched_yield();
      return;
    }
    pollfd readable{fd, POLLIN, 0};
    poll(&readable, 1, -1);
    *since = 0;
  }

  const int rank_;
  const int size_;
  const double spin_us_;
  std::vector<int> peers_;
  std::vector<float> arrived_;
  uint32_t operation_ = 0;
};

void measure(World& world, int rank, int size, size_t bytes, size_t count) {
  std::vector<float> values(bytes / sizeof(float));
  std::vector<double> times(count);
  const auto fill = [&] { std::fill(values.begin(), values.end(), static_cast<float>(rank + 1)); };
  const auto is_right = [&] {
    return std::all_of(values.begin(), values.end(),
                       [&](float value) { return value == static_cast<float>(size * (size + 1) / 2); });
  };
  for (int i = 0; i < kWarmUp; ++i) {
    fill();
    world.all_reduce(values);
    if (!is_right()) die("wrong result");
  }
  std::fill(values.begin(), values.end(), 0.0f);
  const double processor = processor_us();
  const double first = now_us();
  double last = first;
  for (double& time : times) {
    world.all_reduce(values);
    const double at = now_us();
    time = at - last;
    last = at;
  }
  const double mean = (last - first) / static_cast<double>(count);
  const double used = (processor_us() - processor) / static_cast<double>(count);
  std::sort(times.begin(), times.end());
  std::printf("{\"bytes\": %zu, \"mean_us\": %.2f, \"p99_us\": %.2f, \"processor_us\": %.2f}\n", bytes,
              mean, times[count * 99 / 100], used);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "floor RANK ADDRESS,ADDRESS,... COUNT SPIN_US BYTES...\n");
    return 2;
  }
  std::vector<std::string> hosts;
  std::istringstream stream(argv[2]);
  for (std::string host; std::getline(stream, host, ',');) hosts.push_back(host);
  const int rank = std::atoi(argv[1]);
  World world(rank, hosts, std::atof(argv[4]));
  for (int i = 5; i < argc; ++i) {
    measure(world, rank, static_cast<int>(hosts.size()), std::strtoull(argv[i], nullptr, 10),
            std::strtoull(argv[3], nullptr, 10));
  }
  return 0;
}
