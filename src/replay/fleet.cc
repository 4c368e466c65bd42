#include "replay/fleet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/prng.h"

namespace kvferry::replay {
namespace {

constexpr std::uint16_t kFirstPort =
    20000;  // Linux takes ports of outgoing connections from 32768 on: a worker that
constexpr std::uint16_t kPorts = 12000;      // is away for a moment cannot lose its port to one
constexpr int kPortTries = 200;

tl::unexpected<Error> trouble(std::string what, const char* call, std::string_view fix) {
  const int code = errno;
  return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, std::move(what),
              fmt::format("{}: {}; {}", call, std::strerror(code), fix), code);
}

bool port_is_free(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0;
  close(fd);
  return free;
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become_worker(pid_t parent, int area_fd, int link_fd, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);
  fcntl(area_fd, F_SETFD, 0);
  fcntl(link_fd, F_SETFD, 0);
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

Fleet::Fleet(Area& area, FleetOptions options)
    : area_(area), options_(std::move(options)), workers_(area.workers()) {}

Fleet::~Fleet() {
  for (Worker& worker : workers_) {
    if (worker.pid <= 0) continue;
    ::kill(worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
  }
}

std::string Fleet::name(std::uint32_t slot) const {
  const std::uint32_t prefill = area_.config().prefill;
  return slot < prefill ? fmt::format("prefill.{}", slot) : fmt::format("decode.{}", slot - prefill);
}

Result<> Fleet::choose_ports() {
  Prng prng(mix64(static_cast<std::uint64_t>(getpid())) ^ static_cast<std::uint64_t>(monotonic_ns()));
  std::vector<std::uint16_t> taken;
  for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
    int tries = 0;
    for (; tries < kPortTries; ++tries) {
      const auto port = static_cast<std::uint16_t>(kFirstPort + prng.below(kPorts));
      if (std::find(taken.begin(), taken.end(), port) != taken.end() || !port_is_free(port)) continue;
      taken.push_back(port);
      put_text(area_.worker(slot).endpoint, fmt::format("127.0.0.1:{}", port));
      break;
    }
    if (tries == kPortTries) {
      return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, fmt::format("port for {}", name(slot)),
                  fmt::format("no free port of 127.0.0.1 in {} to {} after {} tries; end what holds them",
                              kFirstPort, kFirstPort + kPorts - 1, kPortTries));
    }
  }
  return {};
}

Result<> Fleet::spawn(std::uint32_t slot) {
  Worker& worker = workers_[slot];
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return trouble(name(slot), "socketpair", "allow more open files (ulimit -n)");
  }
  std::vector<std::string> words = {options_.program, options_.verb, std::to_string(area_.fd()),
                                    std::to_string(ends[1]), std::to_string(slot)};
  words.insert(words.end(), options_.settings.begin(), options_.settings.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_worker(parent, area_.fd(), ends[1], argv.data());
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return trouble(name(slot), "fork", "allow more processes (ulimit -u)");
  }
  worker.state = State::kStarting;
  ++worker.life;
  worker.pid = pid;
  worker.link.emplace(ends[0]);
  worker.expected = false;
  return {};
}

void Fleet::kill(std::uint32_t slot) {
  Worker& worker = workers_[slot];
  if (worker.pid <= 0) return;
  worker.expected = true;
  worker.state = State::kEnding;
  ::kill(worker.pid, SIGKILL);
}

void Fleet::send(std::uint32_t slot, const Message& message) {
  if (workers_[slot].link) workers_[slot].link->send(message);
}

void Fleet::quit(std::uint32_t slot) {
  Worker& worker = workers_[slot];
  if (worker.pid <= 0) return;
  worker.expected = true;
  worker.state = State::kEnding;
  send(slot, Message{});
}

void Fleet::pump(int timeout_ms, std::vector<FleetEvent>& events) {
  std::vector<pollfd> fds;
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < workers_.size(); ++slot) {
    Worker& worker = workers_[slot];
    if (!worker.link) continue;
    worker.link->flush();
    const auto wanted = static_cast<short>(POLLIN | (worker.link->unsent() ? POLLOUT : 0));
    fds.push_back({worker.link->fd(), wanted, 0});
    slots.push_back(slot);
  }
  ::poll(fds.data(), fds.size(), timeout_ms);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents != 0) read(slots[i], events);
  }
  for (std::uint32_t slot = 0; slot < workers_.size(); ++slot) reap(slot, events);
}

void Fleet::read(std::uint32_t slot, std::vector<FleetEvent>& events) {
  Worker& worker = workers_[slot];
  scratch_.clear();
  const bool open = worker.link->receive(scratch_);
  for (const Message& message : scratch_) {
    FleetEvent event{FleetEvent::Kind::kMessage, slot, worker.life, message, false, {}};
    if (message.kind == Message::Kind::kReady) {
      event.kind = FleetEvent::Kind::kReady;
      if (worker.state == State::kStarting) worker.state = State::kReady;
    } else if (message.kind == Message::Kind::kTrouble) {
      event.kind = FleetEvent::Kind::kTrouble;
      event.text = area_.worker(slot).trouble;
      worker.expected = true;
    } else if (message.kind == Message::Kind::kBye) {
      event.kind = FleetEvent::Kind::kBye;
    }
    events.push_back(std::move(event));
  }
  if (!open) worker.link.reset();  // what it had said is read; reap() tells that it died
}

void Fleet::reap(std::uint32_t slot, std::vector<FleetEvent>& events) {
  Worker& worker = workers_[slot];
  if (worker.pid <= 0 || worker.link) return;
  int status = 0;
  if (waitpid(worker.pid, &status, WNOHANG) != worker.pid) {
    if (worker.state != State::kEnding) worker.state = State::kEnding;
    return;
  }
  worker.pid = -1;
  worker.state = State::kNone;
  const std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  events.push_back({FleetEvent::Kind::kDied, slot, worker.life, {}, worker.expected, how});
}

}  // namespace kvferry::replay
