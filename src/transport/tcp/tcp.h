// The tcp mover: any host, IPv4 and IPv6, several streams for each peer; the sender writes, the receiver's
// own process checks loan, token and place of each frame before a byte of it is placed. docs/transports.md
// explains it. Thread rule: as Transport. It has no thread of its own; everything happens inside progress().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "kvferry/types.h"

namespace kvferry {

// Bounds of one transport; the names are those that errors use ("tcp.streams").
struct TcpLimits {
  std::uint32_t peers = 1024;            // live and fenced, until dropped; 2 x streams descriptors each
  std::uint32_t ops_in_flight = 256;     // posted and not yet quiesced
  std::uint32_t loans = 65536;           // about 200 B each plus their planes and runs
  std::uint32_t arriving_per_peer = 1024;  // operations of one peer that have begun to arrive; 64 B each
  std::uint32_t unclaimed_lanes =
      256;   // inbound connections not yet known to be a peer's; then the oldest is closed
  std::uint32_t inbound_lanes = 8192;    // one descriptor and about 20 KiB each
  std::uint32_t rejects_per_lane = 256;  // refusals not yet sent; more are counted and not told
};

struct TcpOptions {
  std::string bind;  // address to listen on: numeric or a name; empty: every address of this host
  std::uint16_t port = 0;  // 0: any free port
  // What peers dial: "host" or "host:port", numeric or a name, resolved once at the start. Empty: the bind
  // address, or the addresses of this host's interfaces when it is bound to all (loopback only when there is
  // nothing else).
  std::vector<std::string> advertise;
  std::uint16_t streams = 2;  // connections that this side dials to each peer; 1 to 16
  std::string congestion = "cubic";  // TCP_CONGESTION; empty: the system's choice
  bool congestion_required = false;  // false: the system's choice when `congestion` is not to be had
  std::uint32_t send_buffer = 0,
                receive_buffer = 0;  // bytes, SO_SNDBUF and SO_RCVBUF; 0: the kernel tunes them
  Duration user_timeout =
      std::chrono::seconds(60);  // TCP_USER_TIMEOUT: bytes that nobody takes for so long; 0: off
  Duration keepalive_idle = std::chrono::seconds(10);  // a silent half-open peer is found out after
  Duration keepalive_interval = std::chrono::seconds(5);  // idle + count x interval
  std::uint32_t keepalive_count = 3;
  Duration connect = std::chrono::seconds(5);  // for each address of a peer
  Duration handshake = std::chrono::seconds(30);  // connected until both sides know each other
  Duration redial_first = std::chrono::milliseconds(20);  // after a lost stream; doubles up to redial_most
  Duration redial_most = std::chrono::seconds(1);
  TcpLimits limits;
};

// Counted since the start. Values.
struct TcpStats {
  std::uint64_t frames_sent = 0, frames_placed = 0;
  std::uint64_t bytes_sent = 0, bytes_placed = 0, bytes_discarded = 0;  // payload
  std::uint64_t frames_refused = 0;  // by this side: unknown, stale, wrong token, outside, ...
  std::uint64_t rejects_received = 0;  // told by peers
  std::uint64_t rejects_late = 0;  // of those, for operations that had completed already
  std::uint64_t rejects_untold = 0;  // refusals not told, because the lane's queue was full
  std::uint64_t bad_frames = 0;  // streams closed because of bytes that are no frame
  std::uint64_t lanes_opened = 0, lanes_lost = 0, lanes_refused = 0, redials = 0;
};

class TcpTransport : public Transport {
 public:
  virtual TcpStats stats() const = 0;
  virtual std::vector<std::string> endpoints() const = 0;  // "host:port" as advertised
};

// Binds and listens. Errors: kUsage for a bad option, kEnvironment for what the host refuses, with its errno.
Result<std::unique_ptr<TcpTransport>> open_tcp(const TcpOptions&);

}  // namespace kvferry
