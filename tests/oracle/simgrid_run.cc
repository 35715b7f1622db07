// What SimGrid says an operation takes: the same schedules on the same hosts and rails as `nezha sim`,
// with SimGrid's flows, links and processors in place of the waves of python/nezha/simulation.
//
// Standard input, all numbers (oracle/simgrid.py writes it):
//   hosts rails adds                 bytes per second that a host adds
//   rate latency                     of each rail: the uplinks' rate, and what it takes
//   start rate...                    of each host: when it begins, and the rate of its ports
//   pod over                         a fat tree as of `--tree`; 0 0: switches do not block
//   programs messages
//   src dst bytes added              of each message, as senders give them out
//     program round                  of the sender, and
//     program round                  of the receiver: a round opens when all before it has landed
// Standard output: seconds until the last sender knows that all of its messages are there.
//
// A port sends one message after the other, as the library's rails do; how long each takes is SimGrid's
// (model CM02: flows share links fairly, max-min). A host adds what lands one after the other. The
// latency follows the bytes, so that the next message need not wait for it. Cross-traffic (the
// acknowledgements' bytes) is off on both sides.
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

struct Message {
  int src, dst;
  double bytes, added;  // on the wire; by the receiver's processor
  int from, from_round, into, into_round;
};

struct Program {
  std::vector<std::vector<int>> sends;  // by round
  std::vector<int> missing;             // receives that have not landed, by round
  size_t round = 0;
  int host = -1;
  bool begun = false;
};

struct Port {
  sg4::Host* host = nullptr;
  sg4::SemaphorePtr wake;
  std::deque<int> waiting;
  double waiting_bytes = 0;
  double taken_bytes = 0;  // of the message that it sends, or is about to
  sg4::CommPtr current;

  double backlog() const { return waiting_bytes + (current ? current->get_remaining() : taken_bytes); }
};

struct Arrival {
  double at;
  int message;
  bool operator>(const Arrival& other) const { return at > other.at; }
};

struct Processor {
  sg4::SemaphorePtr wake;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals;
};

struct World {
  int hosts = 0, rails = 0, pod = 0;
  double adds = 0, over = 0;
  std::vector<double> rate, latency;
  std::vector<double> start;      // by host
  std::vector<double> port_rate;  // host by host, rail by rail
  std::vector<Message> messages;
  std::vector<Program> programs;
  std::vector<Port> ports;  // host by host, rail by rail
  std::vector<Processor> processors;
  sg4::SemaphorePtr landed;
  double end = 0;

  double rate_of(int host, int rail) const {
    return port_rate[static_cast<size_t>(host * rails + rail)];
  }
  Port& port(int host, int rail) { return ports[static_cast<size_t>(host * rails + rail)]; }
};

World world;

void need(int read, int wanted) {
  if (read == wanted) return;
  std::fprintf(stderr, "simgrid_run: the input is not what the head of simgrid_run.cc says\n");
  std::exit(2);
}

void read_input() {
  need(std::scanf("%d %d %lf", &world.hosts, &world.rails, &world.adds), 3);
  world.rate.resize(static_cast<size_t>(world.rails));
  world.latency.resize(world.rate.size());
  for (size_t i = 0; i < world.rate.size(); ++i) {
    need(std::scanf("%lf %lf", &world.rate[i], &world.latency[i]), 2);
  }
  world.start.resize(static_cast<size_t>(world.hosts));
  for (double& start : world.start) {
    need(std::scanf("%lf", &start), 1);
    for (int rail = 0; rail < world.rails; ++rail) {
      need(std::scanf("%lf", &world.port_rate.emplace_back()), 1);
    }
  }
  size_t programs = 0, messages = 0;
  need(std::scanf("%d %lf %zu %zu", &world.pod, &world.over, &programs, &messages), 4);
  world.programs.resize(programs);
  world.messages.resize(messages);
  for (size_t i = 0; i < messages; ++i) {
    Message& m = world.messages[i];
    need(std::scanf("%d %d %lf %lf %d %d %d %d", &m.src, &m.dst, &m.bytes, &m.added, &m.from,
                    &m.from_round, &m.into, &m.into_round), 8);
    Program& from = world.programs[static_cast<size_t>(m.from)];
    Program& into = world.programs[static_cast<size_t>(m.into)];
    const auto last = static_cast<size_t>(std::max(m.from_round, m.into_round)) + 1;
    from.host = m.src;
    into.host = m.dst;
    for (Program* program : {&from, &into}) {
      if (program->sends.size() < last) program->sends.resize(last);
      if (program->missing.size() < last) program->missing.resize(last);
    }
    from.sends[static_cast<size_t>(m.from_round)].push_back(static_cast<int>(i));
    ++into.missing[static_cast<size_t>(m.into_round)];
  }
}

// Ports hang on one switch for each rail, or on one for each pod, whose uplink all of its ports share.
void build_platform() {
  sg4::NetZone* root = sg4::create_star_zone("world");
  for (int rail = 0; rail < world.rails; ++rail) {
    const double rate = world.rate[static_cast<size_t>(rail)];
    for (int first = 0; first < world.hosts; first += world.pod > 0 ? world.pod : world.hosts) {
      const std::string name = std::to_string(rail) + "-" + std::to_string(first);
      sg4::NetZone* zone = root;
      simgrid::kernel::routing::NetPoint* gateway = nullptr;
      if (world.pod > 0) {
        zone = sg4::create_star_zone("pod" + name);
        zone->set_parent(root);
        gateway = zone->create_router("switch" + name);
      }
      const int last = world.pod > 0 ? std::min(first + world.pod, world.hosts) : world.hosts;
      for (int host = first; host < last; ++host) {
        const std::string of = std::to_string(rail) + "-" + std::to_string(host);
        sg4::Host* made = zone->create_host("port" + of, world.adds)->seal();
        const double own = world.rate_of(host, rail);
        auto* up = zone->create_link("up" + of, own)->seal();
        auto* down = zone->create_link("down" + of, own)->seal();
        zone->add_route(made->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(up)}, false);
        zone->add_route(nullptr, made->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(down)}, false);
        world.port(host, rail).host = made;
      }
      if (world.pod == 0) continue;
      zone->seal();
      const double uplink = rate * world.pod / world.over;
      auto* up = root->create_link("uplink" + name, uplink)->seal();
      auto* down = root->create_link("downlink" + name, uplink)->seal();
      root->add_route(zone->get_netpoint(), nullptr, gateway, nullptr,
                      {sg4::LinkInRoute(up)}, false);
      root->add_route(nullptr, zone->get_netpoint(), nullptr, gateway,
                      {sg4::LinkInRoute(down)}, false);
    }
  }
  root->seal();
}

// The rail on which the message would be through first, by what the sender knows: its own backlogs.
void give_out(int number) {
  const Message& m = world.messages[static_cast<size_t>(number)];
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int rail = 0; rail < world.rails; ++rail) {
    const double own = world.rate_of(m.src, rail);
    const double through = world.port(m.src, rail).backlog() / own +
                           m.bytes / std::min(own, world.rate_of(m.dst, rail)) +
                           world.latency[static_cast<size_t>(rail)];
    if (through >= least) continue;
    least = through;
    best = rail;
  }
  Port& port = world.port(m.src, best);
  port.waiting.push_back(number);
  port.waiting_bytes += m.bytes;
  port.wake->release();
}

// Opens rounds as long as nothing is missing in the one before.
void go_on(Program& program) {
  if (!program.begun) {
    program.begun = true;
  } else {
    if (program.missing[program.round] > 0) return;
    ++program.round;
  }
  for (; program.round < program.sends.size(); ++program.round) {
    for (const int number : program.sends[program.round]) give_out(number);
    if (program.missing[program.round] > 0) return;
  }
}

void run_port(int host, int rail) {
  Port& port = world.port(host, rail);
  const double latency = world.latency[static_cast<size_t>(rail)];
  for (;;) {
    port.wake->acquire();
    const int number = port.waiting.front();
    const Message& m = world.messages[static_cast<size_t>(number)];
    port.waiting.pop_front();
    port.waiting_bytes -= m.bytes;
    port.taken_bytes = m.bytes;
    port.current = sg4::Comm::sendto_async(port.host, world.port(m.dst, rail).host,
                                           static_cast<uint64_t>(m.bytes));
    port.current->wait();
    port.taken_bytes = 0;
    port.current.reset();
    Processor& processor = world.processors[static_cast<size_t>(m.dst)];
    const double arrives = sg4::Engine::get_clock() + latency;
    world.end = std::max(world.end, arrives + latency);  // when the sender knows
    processor.arrivals.push({arrives, number});
    processor.wake->release();
  }
}

void run_processor(int host) {
  sg4::this_actor::sleep_until(world.start[static_cast<size_t>(host)]);
  Processor& processor = world.processors[static_cast<size_t>(host)];
  for (;;) {
    if (processor.arrivals.empty()) {
      processor.wake->acquire();
      continue;
    }
    const Arrival next = processor.arrivals.top();
    const double pause = next.at - sg4::Engine::get_clock();
    if (pause > 1e-12 && !processor.wake->acquire_timeout(pause)) continue;  // one more has come
    processor.arrivals.pop();
    const Message& m = world.messages[static_cast<size_t>(next.message)];
    if (m.added > 0) sg4::this_actor::execute(m.added);
    world.end = std::max(world.end, sg4::Engine::get_clock());
    Program& program = world.programs[static_cast<size_t>(m.into)];
    --program.missing[static_cast<size_t>(m.into_round)];
    if (program.begun && program.round == static_cast<size_t>(m.into_round)) go_on(program);
    world.landed->release();
  }
}

void run_operation() {
  std::vector<Program*> order;
  for (Program& program : world.programs) {
    if (program.host >= 0) order.push_back(&program);
  }
  const auto start = [](const Program* program) {
    return world.start[static_cast<size_t>(program->host)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Program* a, const Program* b) { return start(a) < start(b); });
  for (Program* program : order) {
    sg4::this_actor::sleep_until(start(program));
    go_on(*program);
  }
  for (size_t i = 0; i < world.messages.size(); ++i) world.landed->acquire();
}

}  // namespace

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma:0");  // no limit by a window
  sg4::Engine::set_config("contexts/stack-size:64");
  sg4::Engine::set_config("contexts/guard-size:0");
  read_input();
  world.ports.resize(static_cast<size_t>(world.hosts * world.rails));
  world.processors.resize(static_cast<size_t>(world.hosts));
  world.landed = sg4::Semaphore::create(0);
  build_platform();
  for (int host = 0; host < world.hosts; ++host) {
    for (int rail = 0; rail < world.rails; ++rail) {
      world.port(host, rail).wake = sg4::Semaphore::create(0);
      sg4::Actor::create("port", world.port(host, rail).host, [=] { run_port(host, rail); })->daemonize();
    }
    world.processors[static_cast<size_t>(host)].wake = sg4::Semaphore::create(0);
    sg4::Actor::create("processor", world.port(host, 0).host, [=] { run_processor(host); })->daemonize();
  }
  sg4::Actor::create("operation", world.port(0, 0).host, run_operation);
  engine.run();
  std::printf("%.12g\n", world.end);
  return 0;
}
