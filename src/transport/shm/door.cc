#include "transport/shm/door.h"

#include <dirent.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

namespace kvferry::shm {

namespace {

constexpr std::string_view kPrefix = "kvferry-shm-";
constexpr std::string_view kSuffix = ".sock";
constexpr std::size_t kMaxName = 107;
constexpr Duration kPatience = std::chrono::seconds(5);  // from accept to the knock
constexpr int kSweepMost = 4096;                         // directory entries looked at

std::string random_name() {
  std::array<unsigned char, 16> raw{};
  static_cast<void>(!::getrandom(raw.data(), raw.size(), 0));
  std::string name(kPrefix);
  for (const unsigned char octet : raw) {
    std::array<char, 3> text{};
    std::snprintf(text.data(), text.size(), "%02x", octet);
    name.append(text.data());
  }
  return name;
}

// Socket files whose process ended without removing them (SIGKILL) refuse connections; live ones do not. A
// door gets its final name only when it listens, so a file that refuses is never one that is being made.
void sweep(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  for (int i = 0; entries != nullptr && i < kSweepMost; ++i) {
    const dirent* entry = ::readdir(entries.get());
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const Address address{false, directory + "/" + std::string(name)};
    File socket;
    if (connect_to(address, socket) == -ECONNREFUSED) ::unlink(address.name.c_str());
  }
}

}  // namespace

Result<Address> Door::choose_address(const std::string& directory) {
  if (directory.empty()) {
    return Address{true, random_name()};
  }
  const Address address{false, directory + "/" + random_name() + std::string(kSuffix)};
  if (address.name.size() > kMaxName) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "shm socket directory '" + directory + "'",
                "the socket's path would have " + std::to_string(address.name.size()) +
                    " bytes; the system takes " + std::to_string(kMaxName) +
                    "; choose a directory with a shorter path");
  }
  sweep(directory);
  return address;
}

Result<Door> Door::open(const Address& address) {
  Address first = address;
  if (!address.abstract) {
    first.name.resize(first.name.size() - 1);  // ".soc" until it listens
  }
  auto socket = listen_at(first);
  if (!socket) {
    return tl::unexpected(socket.error());
  }
  if (!address.abstract && std::rename(first.name.c_str(), address.name.c_str()) != 0) {
    const int number = errno;
    ::unlink(first.name.c_str());
    return system_error("shm door " + text_of(address), "naming the socket failed", number);
  }
  return Door(address, std::move(*socket));
}

Door::~Door() {
  if (socket_ && !address_.abstract) {
    ::unlink(address_.name.c_str());
  }
}

Result<> Door::start(Poller& poller, std::uint64_t cookie, std::uint32_t most, Supply supply) {
  poller_ = &poller;
  cookie_ = cookie;
  most_ = most;
  supply_ = std::move(supply);
  return poller.add(socket_.fd(), Source::kDoor, 0);
}

void Door::on_knocking(TimePoint now) {
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    File socket{::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        paused_ = true;
        poller_->watch_nothing(socket_.fd(), Source::kDoor, 0);
      }
      return;
    }
    const std::uint32_t id = next_id_++;
    if (!poller_->add(socket.fd(), Source::kVisitor, id)) continue;
    const auto at =
        visitors_.emplace(id, Visitor{std::move(socket), now, Visitor::State::kUnknown, {}, {}, 0}).first;
    ++unknown_;
    if (visitors_.size() > most_) {
      dismiss(at, "its table of connections is full (shm.door_connections)");
    }
  }
}

void Door::on_visitor(const Ready& ready, TimePoint) {
  const auto at = visitors_.find(ready.id);
  if (at == visitors_.end()) {
    return;
  }
  if (ready.writable && at->second.state == Visitor::State::kServing && !send_rest(at->first, at->second)) {
    dismiss(at, nullptr);
    return;
  }
  if (!ready.readable && !ready.hung_up) {
    return;
  }
  if (at->second.state == Visitor::State::kUnknown) {
    read_knock(at);
    return;
  }
  int status = 0;
  if (receive_packet(at->second.socket.fd(), status).has_value()) {
    dismiss(at, "a second packet came; one knock is all that a reader says");
  } else if (status != 0) {
    dismiss(at, nullptr);
  }
}

void Door::read_knock(Visitors::iterator at) {
  int status = 0;
  const auto incoming = receive_packet(at->second.socket.fd(), status);
  if (!incoming) {
    if (status != 0) dismiss(at, nullptr);
    return;
  }
  const auto packet = decode_packet(incoming->bytes);
  const auto* knock = packet ? std::get_if<Knock>(&*packet) : nullptr;
  if (knock == nullptr) {
    dismiss(at, packet ? "a knock was expected" : packet.error().why.c_str());
  } else if (knock->cookie != cookie_) {
    dismiss(at, "the caller looks for another life of this address");
  } else {
    at->second.state = Visitor::State::kWaiting;
    --unknown_;
    welcome(at);
  }
}

void Door::welcome(Visitors::iterator at) {
  auto hand_out = supply_();
  if (!hand_out) {
    return;  // serve() comes back to it
  }
  Visitor& visitor = at->second;
  visitor.packets.push_back(encode(hand_out->table));
  for (std::size_t i = 0; i < hand_out->files.size(); i += kFilesPerPacket) {
    const std::size_t count = std::min<std::size_t>(kFilesPerPacket, hand_out->files.size() - i);
    visitor.packets.push_back(encode(Files{static_cast<std::uint32_t>(count)}));
  }
  visitor.files = std::move(hand_out->files);
  visitor.state = Visitor::State::kServing;
  if (!send_rest(at->first, visitor)) {
    dismiss(at, nullptr);
  }
}

bool Door::send_rest(std::uint32_t id, Visitor& visitor) {
  for (; visitor.next < visitor.packets.size(); ++visitor.next) {
    std::vector<int> descriptors;
    if (visitor.next != 0) {
      const std::size_t first = (visitor.next - 1) * kFilesPerPacket;
      const std::size_t last = std::min<std::size_t>(first + kFilesPerPacket, visitor.files.size());
      for (std::size_t i = first; i < last; ++i) descriptors.push_back(visitor.files[i]->fd());
    }
    const int status = send_packet(visitor.socket.fd(), visitor.packets[visitor.next], descriptors);
    if (status == -EAGAIN || status == -EINTR) {
      poller_->watch_output(visitor.socket.fd(), Source::kVisitor, id, true);
      return true;
    }
    if (status != 0) {
      return false;
    }
  }
  poller_->watch_output(visitor.socket.fd(), Source::kVisitor, id, false);
  visitor.state = Visitor::State::kServed;
  visitor.packets.clear();
  visitor.files.clear();
  return true;
}

Door::Visitors::iterator Door::dismiss(Visitors::iterator at, const char* why) {
  Visitor& visitor = at->second;
  if (visitor.state == Visitor::State::kUnknown) {
    --unknown_;
    ++turned_away_;
  }
  if (why != nullptr) {
    int status = 0;  // what it sent and nobody read would turn the refusal into a reset
    static_cast<void>(receive_packet(visitor.socket.fd(), status));
    static_cast<void>(send_packet(visitor.socket.fd(), encode(Refusal{why}), {}));
  }
  poller_->remove(visitor.socket.fd());
  return visitors_.erase(at);
}

void Door::serve() {
  std::vector<std::uint32_t> waiting;
  for (const auto& [id, visitor] : visitors_) {
    if (visitor.state == Visitor::State::kWaiting) waiting.push_back(id);
  }
  for (const std::uint32_t id : waiting) welcome(visitors_.find(id));
}

bool Door::on_time(TimePoint now) {
  if (paused_) {
    paused_ = false;
    poller_->watch_output(socket_.fd(), Source::kDoor, 0, false);
  }
  for (auto at = visitors_.begin(); at != visitors_.end() && unknown_ != 0;) {
    const bool late = at->second.state == Visitor::State::kUnknown && now - at->second.since >= kPatience;
    at = late ? dismiss(at, "no knock within 5 s") : std::next(at);
  }
  return needs_time();
}

}  // namespace kvferry::shm
