// What goes over the unix socket when a peer's memory is opened: KNOCK from the reader; then TABLE and FILES
// (with descriptors), or REFUSAL, from the lender. One message is one packet. Values and plain calls; no
// thread rule.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kvferry/error.h"
#include "transport/shm/description.h"
#include "transport/shm/file.h"

namespace kvferry::shm {

inline constexpr std::size_t kMaxPacket = 32768;   // 1,024 regions of 29 B and the rest
inline constexpr std::uint32_t kFilesPerPacket = 64;  // the kernel takes 253
inline constexpr std::uint32_t kMaxFiles =
    1024;   // one memfd for each adopted region or pool, and the lease words

struct Knock {
  std::uint64_t cookie = 0;  // of the lender that the caller looks for
  bool operator==(const Knock&) const = default;
};
struct HandedRegion {
  std::uint64_t length = 0;  // 0: no region of this id
  RegionKind kind = RegionKind::kUnready;
  std::uint32_t file = 0;     // kShared: index; file 0 is the lease words
  std::uint64_t offset = 0;   // kShared: of the region's first byte in the file
  std::uint64_t address = 0;  // in the lender
  bool operator==(const HandedRegion&) const = default;
};
struct Table {
  std::uint32_t files = 0;           // FILES packets with as many descriptors follow
  std::uint64_t cookie = 0;
  std::uint64_t lease_address = 0;  // of the lease words in the lender: proves that its memory can be read
  std::vector<HandedRegion> regions;  // by RegionId
  bool operator==(const Table&) const = default;
};
struct Files {  // the descriptors travel beside it, in order
  std::uint32_t count = 0;
  bool operator==(const Files&) const = default;
};
struct Refusal {
  std::string text;
  bool operator==(const Refusal&) const = default;
};
using Packet = std::variant<Knock, Table, Files, Refusal>;

std::vector<std::byte> encode(const Packet&);
Result<Packet> decode_packet(std::span<const std::byte>);

// A bound and listening unix socket address.
struct Address {
  bool abstract = true;
  std::string name;  // at most 107 bytes
};
std::string text_of(const Address&);  // "'@name'" or "'path'", for errors

// Non-blocking, close-on-exec SOCK_SEQPACKET sockets. A negative result is -errno.
Result<File> listen_at(const Address&);
int connect_to(const Address&, File& socket);  // 0; -EAGAIN: the queue of the door is full, try again
int send_packet(int socket, std::span<const std::byte>, std::span<const int> descriptors);  // 0 or -errno

struct Incoming {
  std::vector<std::byte> bytes;
  std::vector<File> files;
  bool cut = false;  // descriptors are missing: this process has no room for more
};
// nullopt with 0: nothing there yet; nullopt with -errno: broken; nullopt with 1: the other end hung up.
std::optional<Incoming> receive_packet(int socket, int& status);

pid_t pid_of_other_end(
    int socket) noexcept;  // as this process's pid namespace numbers it; 0: not visible here

}  // namespace kvferry::shm
