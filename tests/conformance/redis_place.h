// RedisPlace: a real redis-server of our own, with certificates of our own, on a free loopback port.
//
// Contract: test support, main thread; the server ends with the object. missing() says why this machine
// cannot have one. The default user's password needs escaping; the user `worker` may do only what the
// store needs, with keys below "job/".
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "conformance/store_kinds.h"
#include "support/sockets.h"

namespace nezha::rendezvous {

class RedisPlace final : public Place {
 public:
  // tls_mutual: the server asks clients for a certificate.
  enum class Way : uint8_t { plain, tls, tls_mutual, unix_socket };

  explicit RedisPlace(Way way = Way::plain) : way_(way) {
    for (const char* program : {"redis-server", "openssl"}) {
      if (std::system((std::string("command -v ") + program + " > /dev/null 2>&1").c_str()) != 0) {
        missing_ = std::string(program) + " is not installed";
      }
    }
    if (!missing_.empty()) return;
    port_ = nezha::testing::free_port_of("127.0.0.1");
    EXPECT_NE(port_, 0);
    if (with_tls()) make_certificates();
    write_configuration();
    start();
  }
  ~RedisPlace() override { stop(); }
  std::string missing() const override { return missing_; }

  std::unique_ptr<Store> open(const std::string& prefix) override {
    return opened(address(), false, prefix);
  }
  // A good one.
  std::string address() const { return address(":p%40ss@", "3"); }
  std::string address(const std::string& credentials, const std::string& database) const {
    if (way_ == Way::unix_socket) {
      return "redis+unix://" + credentials + directory_.path() + "/socket?db=" + database;
    }
    std::string text = (with_tls() ? "rediss://" : "redis://") + credentials + "127.0.0.1:" +
                       std::to_string(port_) + "/" + database;
    if (with_tls()) text += "?ca=" + file("ca.pem");
    if (way_ == Way::tls_mutual) text += "&cert=" + file("server.pem") + "&key=" + file("server.key");
    return text;
  }
  std::string file(const std::string& name) const { return directory_.path() + "/" + name; }
  uint16_t port() const { return port_; }

  // Also again, empty; by a thread that outlives the server.
  void start() {
    process_ = fork();
    if (process_ == 0) run_server();
  }
  void stop() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  // Redis has to come up first; a refused connection is the only way to know that it has not.
  bool wait_until_up() {
    OpenOptions options;
    options.deadline = test_deadline();
    while (!expired(options.deadline)) {
      if (open_store(address(), options)) return true;
      if (waitpid(process_, nullptr, WNOHANG) == process_) {
        process_ = 0;
        return false;
      }
      usleep(10'000);
    }
    return false;
  }

 private:
  bool with_tls() const { return way_ == Way::tls || way_ == Way::tls_mutual; }

  // An authority, and a certificate of it that is good for 127.0.0.1 only.
  void make_certificates() const {
    std::ofstream(file("names")) << "subjectAltName=IP:127.0.0.1\n";
    const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";
    const std::string commands =
        "cd " + directory_.path() + " && openssl req -x509 " + key +
        "-subj '/CN=test authority' -days 2 -keyout ca.key -out ca.pem && openssl req -new " + key +
        "-subj '/CN=test server' -keyout server.key -out server.csr && openssl x509 -req -in server.csr "
        "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem";
    EXPECT_EQ(std::system(("(" + commands + ") > " + file("openssl.log") + " 2>&1").c_str()), 0);
  }

  void write_configuration() const {
    std::ofstream text(file("redis.conf"));
    text << "bind 127.0.0.1\nsave \"\"\nappendonly no\nrequirepass p@ss\ndir " << directory_.path()
         << "\nlogfile redis.log\nuser worker on >w0rk ~job/* +set +get +del\n";
    const char* asks = way_ == Way::tls_mutual ? "yes" : "no";
    if (with_tls()) {
      text << "port 0\ntls-port " << port_ << "\ntls-cert-file server.pem\ntls-key-file server.key\n"
           << "tls-ca-cert-file ca.pem\ntls-auth-clients " << asks << "\n";
    } else if (way_ == Way::unix_socket) {
      text << "port 0\nunixsocket " << file("socket") << "\n";
    } else {
      text << "port " << port_ << "\n";
    }
  }

  [[noreturn]] void run_server() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (chdir(directory_.path().c_str()) != 0) _exit(126);
    execlp("redis-server", "redis-server", "redis.conf", static_cast<char*>(nullptr));
    _exit(127);
  }

  const Way way_;
  std::string missing_;
  const nezha::testing::TempDirectory directory_;
  uint16_t port_ = 0;
  pid_t process_ = 0;
};

}  // namespace nezha::rendezvous
