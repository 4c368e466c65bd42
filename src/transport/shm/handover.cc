#include "transport/shm/handover.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"

namespace kvferry::shm {

namespace {

constexpr std::uint32_t kMagic = 0x4f48'534b;  // "KSHO"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kRegionBytes = 29;
constexpr std::size_t kMaxText = 1024;

struct Body {
  Writer& out;
  void operator()(const Knock& knock) const { out.u64(knock.cookie); }
  void operator()(const Table& table) const {
    out.u32(table.files);
    out.u64(table.cookie);
    out.u64(table.lease_address);
    out.u32(static_cast<std::uint32_t>(table.regions.size()));
    for (const HandedRegion& region : table.regions) {
      out.u64(region.length);
      out.u8(static_cast<std::uint8_t>(region.kind));
      out.u32(region.file);
      out.u64(region.offset);
      out.u64(region.address);
    }
  }
  void operator()(const Files& files) const { out.u32(files.count); }
  void operator()(const Refusal& refusal) const { out.text(refusal.text.substr(0, kMaxText)); }
};

tl::unexpected<Error> malformed(std::string why) {
  return fail(Code::kBadMessage, Who::kPeer, Next::kNever, "shm hand-over packet", std::move(why));
}

Result<Packet> decode_table(Reader& in) {
  Table table;
  table.files = in.u32();
  table.cookie = in.u64();
  table.lease_address = in.u64();
  const std::uint32_t count = in.u32();
  if (!in.ok() || in.left() != std::size_t{count} * kRegionBytes) {
    return malformed("the table announces " + std::to_string(count) + " regions and holds " +
                     std::to_string(in.left()) + " bytes of them");
  }
  if (table.files == 0 || table.files > kMaxFiles) {
    return malformed(std::to_string(table.files) + " files announced; 1 to " + std::to_string(kMaxFiles) +
                     " are possible");
  }
  table.regions.resize(count);
  for (HandedRegion& region : table.regions) {
    region.length = in.u64();
    const std::uint8_t kind = in.u8();
    region.kind = static_cast<RegionKind>(kind);
    region.file = in.u32();
    region.offset = in.u64();
    region.address = in.u64();
    if (kind > static_cast<std::uint8_t>(RegionKind::kForeign) || region.file >= table.files) {
      return malformed("a region has kind " + std::to_string(kind) + " and file " +
                       std::to_string(region.file) + " of " + std::to_string(table.files));
    }
  }
  return Packet{std::move(table)};
}

// sockaddr_un of an address, and its length as the kernel wants it.
socklen_t fill(const Address& address, sockaddr_un& raw) noexcept {
  raw = {};
  raw.sun_family = AF_UNIX;
  const std::size_t lead = address.abstract ? 1 : 0;
  const std::size_t size = std::min(address.name.size(), sizeof raw.sun_path - 1);
  std::memcpy(raw.sun_path + lead, address.name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + lead + size + (address.abstract ? 0 : 1));
}

File make_socket() { return File{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)}; }

void take_files(msghdr& header, std::vector<File>& files) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      files.emplace_back(fd);
    }
  }
}

}  // namespace

std::vector<std::byte> encode(const Packet& packet) {
  std::vector<std::byte> bytes(kMaxPacket);
  Writer out(bytes);
  out.u32(kMagic);
  out.u16(kVersion);
  out.u8(static_cast<std::uint8_t>(packet.index()));
  std::visit(Body{out}, packet);
  bytes.resize(out.size());
  return bytes;
}

Result<Packet> decode_packet(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::uint32_t magic = in.u32();
  const std::uint16_t version = in.u16();
  const std::uint8_t kind = in.u8();
  if (!in.ok() || magic != kMagic) {
    return malformed("it does not begin like one (" + std::to_string(bytes.size()) + " bytes)");
  }
  if (version != kVersion) {
    return malformed("it has version " + std::to_string(version) + ", this side speaks " +
                     std::to_string(kVersion));
  }
  Packet packet;
  switch (kind) {
    case 0: packet = Knock{in.u64()}; break;
    case 1: return decode_table(in);
    case 2: packet = Files{in.u32()}; break;
    case 3: packet = Refusal{std::string(in.text(kMaxText))}; break;
    default: return malformed("it has the unknown kind " + std::to_string(kind));
  }
  if (!in.at_end()) {
    return malformed("it is cut or has bytes left over (kind " + std::to_string(kind) + ")");
  }
  return packet;
}

std::string text_of(const Address& address) {
  return "'" + std::string(address.abstract ? "@" : "") + address.name + "'";
}

Result<File> listen_at(const Address& address) {
  const std::string what = "shm door " + text_of(address);
  sockaddr_un raw;
  const socklen_t size = fill(address, raw);
  File socket = make_socket();
  if (!socket) {
    return system_error(what, "socket failed", errno);
  }
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&raw), size) != 0) {
    return system_error(what, "bind failed", errno);
  }
  if (::listen(socket.fd(), SOMAXCONN) != 0) {
    return system_error(what, "listen failed", errno);
  }
  return socket;
}

int connect_to(const Address& address, File& socket) {
  sockaddr_un raw;
  const socklen_t size = fill(address, raw);
  if (!socket) {
    socket = make_socket();
  }
  if (!socket || ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&raw), size) != 0) {
    return -errno;
  }
  return 0;
}

int send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kFilesPerPacket * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t size = descriptors.size_bytes();
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(first), descriptors.data(), size);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

std::optional<Incoming> receive_packet(int socket, int& status) {
  Incoming incoming;
  incoming.bytes.resize(kMaxPacket);
  iovec part{incoming.bytes.data(), incoming.bytes.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kFilesPerPacket * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (size <= 0) {
    status = size == 0 ? 1 : (errno == EAGAIN || errno == EINTR ? 0 : -errno);
    return std::nullopt;
  }
  take_files(header, incoming.files);
  incoming.cut = (header.msg_flags & MSG_CTRUNC) != 0;
  incoming.bytes.resize(static_cast<std::size_t>(size));
  status = 0;
  return incoming;
}

pid_t pid_of_other_end(int socket) noexcept {
  ucred facts{};
  socklen_t size = sizeof facts;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &facts, &size) == 0 ? facts.pid : 0;
}

}  // namespace kvferry::shm
