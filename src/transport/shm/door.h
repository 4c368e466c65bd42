// The lender's end of hand-overs: a listening unix socket at which readers knock for the memfds. Thread rule:
// progress thread. Visitors that do not knock in time, knock wrong or come in too great a number are turned
// away and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/types.h"
#include "transport/shm/exports.h"
#include "transport/shm/handover.h"
#include "transport/shm/poller.h"

namespace kvferry::shm {

class Door {
 public:
  struct HandOut {
    Table table;
    std::vector<SharedFile> files;
  };
  // nullopt: the regions are not settled yet; serve() is called when they are.
  using Supply = std::function<std::optional<HandOut>()>;

  // `directory`: empty for an abstract name. Removes socket files of ended processes from the directory.
  static Result<Address> choose_address(const std::string& directory);
  static Result<Door> open(const Address&);
  Door(Door&&) noexcept = default;
  Door& operator=(Door&&) = delete;
  ~Door();  // removes the socket file

  // Before any other call; `poller` outlives this.
  Result<> start(Poller& poller, std::uint64_t cookie, std::uint32_t most, Supply supply);
  void on_knocking(TimePoint now);  // the listening socket is readable
  void on_visitor(const Ready&, TimePoint now);
  void serve();  // the regions are settled now
  bool on_time(TimePoint now);  // true: wants to be called again in some milliseconds
  bool needs_time() const noexcept { return paused_ || unknown_ != 0; }
  const Address& address() const noexcept { return address_; }
  std::uint64_t turned_away() const noexcept { return turned_away_; }

 private:
  struct Visitor {
    File socket;
    TimePoint since;
    enum class State : std::uint8_t { kUnknown, kWaiting, kServing, kServed } state = State::kUnknown;
    std::vector<std::vector<std::byte>> packets;  // still to be sent, from `next` on
    std::vector<SharedFile> files;
    std::size_t next = 0;
  };
  using Visitors = std::map<std::uint32_t, Visitor>;

  Door(Address address, File socket) : address_(std::move(address)), socket_(std::move(socket)) {}
  void welcome(Visitors::iterator);  // it knocked right
  bool send_rest(std::uint32_t id, Visitor&);  // false: broken
  Visitors::iterator dismiss(Visitors::iterator,
                             const char* why);  // why: told to the visitor; null: silently
  void read_knock(Visitors::iterator);

  Address address_;
  File socket_;
  Poller* poller_ = nullptr;
  std::uint64_t cookie_ = 0;
  std::uint32_t most_ = 0, next_id_ = 0, unknown_ = 0;
  bool paused_ = false;  // no descriptors left: not accepting for a moment
  Supply supply_;
  Visitors visitors_;
  std::uint64_t turned_away_ = 0;
};

}  // namespace kvferry::shm
