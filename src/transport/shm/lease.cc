#include "transport/shm/lease.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "transport/shm/fence.h"

namespace kvferry::shm {

namespace {

constexpr std::uint64_t kMagic = 0x5352'4556'4b4c'5353;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kWordsAt = kSmall;  // behind a page for the header

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(LeaseHeader) == 24 && sizeof(LeaseWords) == 16, "the layout is shared by processes");

std::uint64_t bytes_for(std::uint32_t slots) noexcept {
  return round_up(kWordsAt + std::uint64_t{slots} * sizeof(LeaseWords), kSmall);
}

}  // namespace

Result<LeaseWriter> LeaseWriter::create(std::uint32_t slots, std::uint64_t cookie) {
  auto file = make_memfd("kvferry-lease", bytes_for(slots));
  if (!file) {
    return tl::unexpected(file.error());
  }
  auto mapping = map_file(file->fd(), bytes_for(slots), Protection::kReadWrite, "shm lease words");
  if (!mapping) {
    return tl::unexpected(mapping.error());
  }
  auto touched = touch(mapping->data(), mapping->size(), Protection::kReadWrite, nullptr, "shm lease words");
  if (!touched) {
    return tl::unexpected(touched.error());
  }
  const LeaseHeader header{kMagic, kVersion, slots, cookie};
  std::memcpy(mapping->data(), &header, sizeof header);
  auto handed = read_only(file->fd());
  if (!handed) {
    return tl::unexpected(handed.error());
  }
  return LeaseWriter(std::move(*handed), std::move(*mapping), slots);
}

LeaseWriter::~LeaseWriter() {
  for (std::uint32_t slot = 0; mapping_ && slot < slots_; ++slot) {
    std::atomic_ref(words(slot)->serial).store(0, std::memory_order_relaxed);
  }
  full_fence();
}

LeaseWords* LeaseWriter::words(std::uint32_t slot) const noexcept {
  return reinterpret_cast<LeaseWords*>(mapping_.data() + kWordsAt) + slot;
}

void LeaseWriter::begin(std::uint32_t slot, std::uint64_t serial, std::uint64_t token) noexcept {
  std::atomic_ref(words(slot)->token).store(token, std::memory_order_relaxed);
  std::atomic_ref(words(slot)->serial)
      .store(serial, std::memory_order_seq_cst);  // also behind non-temporal stores
}

void LeaseWriter::end(std::uint32_t slot) noexcept {
  // The pages may be written anew as soon as this returns; no such write may be seen before the 0 is.
  std::atomic_ref(words(slot)->serial).store(0, std::memory_order_seq_cst);
  full_fence();
}

Result<LeaseView> LeaseView::open(int fd, std::uint64_t cookie, const std::string& what) {
  auto size = sealed_size(fd, what);
  if (!size) {
    return tl::unexpected(size.error());
  }
  if (*size < kWordsAt) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                "its control memory has " + std::to_string(*size) + " bytes; a header alone takes " +
                    std::to_string(kWordsAt));
  }
  auto mapping = map_file(fd, *size, Protection::kRead, what);
  if (!mapping) {
    return tl::unexpected(mapping.error());
  }
  LeaseHeader header;
  std::memcpy(&header, mapping->data(), sizeof header);
  if (header.magic != kMagic || header.version != kVersion) {
    return fail(Code::kMismatch, Who::kPeer, Next::kAfterFix, what,
                "its control memory has version " + std::to_string(header.version) +
                    ", this side reads version " + std::to_string(kVersion));
  }
  if (header.cookie != cookie) {
    return fail(Code::kPeerLost, Who::kPeer, Next::kNewRoom, what,
                "its control memory belongs to another life (cookie " + std::to_string(header.cookie) +
                    ", described " + std::to_string(cookie) + ")");
  }
  if (bytes_for(header.slots) > *size) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                "its control memory of " + std::to_string(*size) + " bytes cannot hold " +
                    std::to_string(header.slots) + " slots");
  }
  if (auto touched = touch(mapping->data(), *size, Protection::kRead, nullptr, what); !touched) {
    return tl::unexpected(touched.error());
  }
  LeaseView view;
  view.mapping_ = std::move(*mapping);
  view.slots_ = header.slots;
  return view;
}

LeaseView::State LeaseView::look(const Ticket& ticket) const noexcept {
  load_fence();
  auto* words = reinterpret_cast<LeaseWords*>(mapping_.data() + kWordsAt) + ticket.loan.slot;
  const std::uint64_t token = std::atomic_ref(words->token).load(std::memory_order_acquire);
  const std::uint64_t serial = std::atomic_ref(words->serial).load(std::memory_order_acquire);
  if (serial == 0 || serial != ticket.loan.serial) {
    return State::kEnded;
  }
  return token == ticket.token ? State::kInForce : State::kWrongToken;
}

}  // namespace kvferry::shm
