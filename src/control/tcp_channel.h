// The control channel over TCP: length-prefixed frames, IPv4 and IPv6, one epoll set that the owner's thread
// polls. Thread rule: as Channel: everything from the one progress thread. Only TcpChannelCounters may be
// read from others. A link that misbehaves (a frame too long, a reader that stopped) costs only itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvferry/channel.h"

namespace kvferry::control {

// Monotonic; relaxed atomics; the channel holds one share, readers another.
struct TcpChannelCounters {
  std::atomic<std::uint64_t> dialled{0}, accepted{0};  // connections that came up
  std::atomic<std::uint64_t> dials_failed{0};
  std::atomic<std::uint64_t> links_refused{0};  // inbound above max_links, or no descriptor left
  std::atomic<std::uint64_t> links_evicted{0};  // inbound, never sent a frame, replaced at max_links
  std::atomic<std::uint64_t> frames_sent{0}, frames_received{0};
  std::atomic<std::uint64_t> bytes_sent{0}, bytes_received{0};  // on the wire, prefixes included
  std::atomic<std::uint64_t> writes{0};           // system calls: frames_sent / writes is the coalescing
  std::atomic<std::uint64_t> frames_dropped{0};   // send() said false: queue full, too long or link gone
  std::atomic<std::uint64_t> frames_too_long{0};  // inbound: the link was ended
  std::atomic<std::uint64_t> frames_cut{0};       // inbound: the stream ended inside a frame
};

struct TcpChannelOptions {
  std::string bind =
      "127.0.0.1:0";  // HOST:PORT to listen on; port 0: any free one; 0.0.0.0, [::], *: every address
  // HOST, HOST:PORT or HOST:0 that others dial; empty: the bound address, or for "every address" the first
  // one of this host that is not loopback. Port 0 or none: the port that is really bound.
  std::string advertise;
  std::size_t max_frame = 1U << 20;  // bytes of one frame; equals wire::FrameLimits::frame_bytes
  std::size_t queue_bytes = 4U << 20;  // unsent bytes per link, prefixes included
  std::uint32_t max_links = 4096;  // live links, both directions
  std::uint32_t connect_tries = 3;  // SYNs before a dial fails: 1 + 2 + 4 s
  std::chrono::milliseconds bind_patience{400};  // how long an address in use is retried
  std::shared_ptr<TcpChannelCounters> counters;  // empty: nobody looks
};

// Blocks for bind_patience at most (and for DNS when `bind` is a name). Errors: kUsage for a value,
// kEnvironment for an address that cannot be bound (it is named), both with the fix.
Result<std::unique_ptr<Channel>> make_tcp_channel(TcpChannelOptions);

}  // namespace kvferry::control
