// Frames between two processes over links that come and go; lost, late and repeated frames are all fine with
// the core. Thread rule: called from the one progress thread; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/export.h"
#include "kvferry/types.h"

namespace kvferry {

struct ChannelEvent {
  enum class Kind : std::uint8_t { kUp, kDown, kFrame } kind = Kind::kFrame;
  LinkId link;
  std::string remote;                  // kUp: "host:port" of the other end; kDown: empty
  Error error;                         // kDown: why (ECONNREFUSED and the like as status)
  std::vector<std::byte> frame;        // kFrame
};

class KVFERRY_API Channel {
 public:
  virtual ~Channel() = default;
  // Starts a connection; kUp or kDown follows for the returned link. Inbound links appear as kUp with a new
  // id.
  virtual Result<LinkId> dial(std::string_view endpoint) = 0;
  // Queues one frame. false: the link is gone or its bounded queue is full (counted); the core's debts
  // survive that.
  virtual bool send(LinkId, std::span<const std::byte> frame) = 0;
  virtual void close(LinkId) = 0;  // no kDown follows
  virtual std::size_t poll(std::vector<ChannelEvent>& out,
                           std::size_t most) = 0;  // appends at most `most` events
  virtual int wake_fd() const noexcept = 0;  // readable when poll() or an internal flush has work
  virtual std::string endpoint() const = 0;  // advertised "host:port"
};

}  // namespace kvferry
