// The reader's end of a hand-over: connects to a peer's door, knocks, collects the table and the descriptors.
// The connection stays open afterwards: its hang-up says that the peer's process is gone. Thread rule:
// progress thread.
#pragma once

#include <string>

#include "kvferry/error.h"
#include "transport/shm/description.h"
#include "transport/shm/handover.h"
#include "transport/shm/peer_memory.h"

namespace kvferry::shm {

class PeerLink {
 public:
  // `directory`: where this side sees socket files (empty: where the peer said).
  PeerLink(const Description& peer, const std::string& directory, std::string what);

  enum class Step : std::uint8_t { kRetryConnect, kWait, kComplete };
  // Does what can be done now. An error ends the link; after kComplete take() may be called once.
  Result<Step> advance();
  Handed take() { return std::move(handed_); }
  bool hung_up() const;  // after kComplete, when the socket became readable
  int fd() const noexcept { return socket_.fd(); }  // -1 until connected
  bool connected() const noexcept { return connected_; }

 private:
  Result<> connect();
  Result<> accept_packet(Incoming);
  Result<> check_table(const Table&) const;
  Error unreachable(int number) const;

  Description description_;
  Address address_;
  std::string what_;
  File socket_;
  bool connected_ = false, have_table_ = false;
  Handed handed_;
};

}  // namespace kvferry::shm
