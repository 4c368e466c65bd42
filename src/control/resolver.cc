#include "control/resolver.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>

namespace kvferry::control {

struct Resolver::Shared {
  std::mutex mutex;
  std::vector<Answer> answers;
  std::uint32_t running = 0;
  Fd event{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

namespace {

Resolver::Answer look_up(std::uint32_t token, const HostPort& name) {
  Resolver::Answer out;
  out.token = token;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(name.host.c_str(), nullptr, &hints, &list);
  for (const addrinfo* at = list; rc == 0 && at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    address.set_port(name.port);
    out.addresses.push_back(address);
  }
  if (list != nullptr) ::freeaddrinfo(list);
  if (out.addresses.empty())
    out.error = Error{Code::kTransport,
                      Who::kConfig,
                      Next::kRetry,
                      rc,
                      "name \"" + name.host + "\"",
                      std::string("no address found: ") + (rc != 0 ? ::gai_strerror(rc) : "empty answer")};
  return out;
}

}  // namespace

Resolver::Resolver() : shared_(std::make_shared<Shared>()) {}
Resolver::~Resolver() = default;

Result<> Resolver::start(std::uint32_t token, const HostPort& name) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->running >= kMost)
      return fail(Code::kWouldBlock, Who::kLocal, Next::kRetry, "name \"" + name.host + "\"",
                  "16 look-ups run already, which is the limit; try again");
    ++shared_->running;
  }
  try {
    std::thread([shared = shared_, token, name] {
      Answer answer = look_up(token, name);
      const std::lock_guard lock(shared->mutex);
      --shared->running;
      shared->answers.push_back(std::move(answer));
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto n = ::write(shared->event.get(), &one, sizeof one);
    }).detach();
  } catch (const std::system_error& e) {
    const std::lock_guard lock(shared_->mutex);
    --shared_->running;
    return fail(Code::kEnvironment, Who::kLocal, Next::kRetry, "name \"" + name.host + "\"",
                std::string("no thread for the look-up: ") + e.what());
  }
  return {};
}

void Resolver::take(std::vector<Answer>& out) {
  const std::lock_guard lock(shared_->mutex);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(shared_->event.get(), &count, sizeof count);
  out.insert(out.end(), std::make_move_iterator(shared_->answers.begin()),
             std::make_move_iterator(shared_->answers.end()));
  shared_->answers.clear();
}

int Resolver::wake_fd() const noexcept { return shared_->event.get(); }

}  // namespace kvferry::control
