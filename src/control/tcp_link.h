// One connection of the control channel: its socket, its bounded queue of unsent bytes, its half-read frame.
// No epoll, no events: the channel decides when to read and write. Thread rule: the channel's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/frame_reader.h"
#include "control/socket.h"
#include "kvferry/types.h"

namespace kvferry::control {

class TcpLink {
 public:
  enum class State : std::uint8_t { kResolving, kConnecting, kUp, kEnded };
  enum class Io : std::uint8_t { kDone, kBlocked, kBroken };

  TcpLink(LinkId own_id, bool by_us, std::string other, std::size_t max_frame)
      : id(own_id), dialled(by_us), target(std::move(other)), reader(max_frame) {}

  // Queues one frame; false when it would pass `queue_bytes`.
  bool queue(std::span<const std::byte> frame, std::size_t queue_bytes);
  std::size_t queued() const { return out_.size() - out_head_; }
  // One pass of writing. kBroken: `end` is set. Adds to the two counts.
  Io flush(std::uint64_t& bytes, std::uint64_t& calls);
  // One read of up to 64 KiB into `reader`. kBroken: the stream ended; `end` says why.
  Io fill(std::uint64_t& bytes);
  // Tries the next address: kBlocked = under way, kDone = connected at once, kBroken = none left (`end`).
  Io connect_next(std::uint32_t tries);
  // The outcome of a connect that was under way; as connect_next.
  Io connect_result(std::uint32_t tries);
  void fail_with(Code, Who, Next, std::string why, int status);

  const LinkId id;
  const bool dialled;
  const std::string target;  // as dialled, or the address of the other end
  State state = State::kResolving;
  Fd fd;
  std::vector<Address> candidates;  // addresses that were not tried yet, the next one last
  FrameReader reader;
  Error end;                    // why it ended
  bool announced = false;       // kUp was told
  bool heard = false;           // a whole frame has come
  bool write_broken = false;    // reading goes on until the stream's end
  bool watching_write = false;  // EPOLLOUT is asked for
  bool dirty = false,
       ready = false;  // listed by the channel: unsent bytes, undelivered frames or an undelivered end

 private:
  Io check_connected();

  std::vector<std::byte> out_;
  std::size_t out_head_ = 0;
};

}  // namespace kvferry::control
