// Lease words in shared memory (protocol rule 26): one pair of words per loan slot, written by the lender
// alone. `serial` says which loan is in force (0: none; a serial is never used twice in a life), `token`
// guards it. Thread rule: LeaseWriter belongs to the lender's progress thread; any number of LeaseViews, in
// any process, read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kvferry/error.h"
#include "kvferry/types.h"
#include "transport/shm/file.h"
#include "transport/shm/mapping.h"

namespace kvferry::shm {

struct LeaseHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t slots = 0;
  std::uint64_t cookie = 0;  // which life of which transport wrote this
};

struct LeaseWords {  // all accesses are atomic
  std::uint64_t serial = 0;
  std::uint64_t token = 0;
};

class LeaseWriter {
 public:
  static Result<LeaseWriter> create(std::uint32_t slots, std::uint64_t cookie);
  LeaseWriter(LeaseWriter&&) noexcept = default;
  LeaseWriter& operator=(LeaseWriter&&) noexcept = default;
  ~LeaseWriter();  // every word is dead afterwards, also for readers that keep their mapping

  void begin(std::uint32_t slot, std::uint64_t serial, std::uint64_t token) noexcept;
  // The loan is over when this returns: no reader that looks at the word later accepts what it copied.
  void end(std::uint32_t slot) noexcept;
  std::shared_ptr<const File> handed() const noexcept { return handed_; }  // read-only, for readers
  const std::byte* address() const noexcept { return mapping_.data(); }  // of the header, in this process

 private:
  LeaseWriter(File handed, Mapping mapping, std::uint32_t slots)
      : handed_(std::make_shared<const File>(std::move(handed))),
        mapping_(std::move(mapping)),
        slots_(slots) {}
  LeaseWords* words(std::uint32_t slot) const noexcept;

  std::shared_ptr<const File> handed_;
  Mapping mapping_;
  std::uint32_t slots_ = 0;
};

class LeaseView {
 public:
  LeaseView() = default;
  // Maps a peer's control memfd and checks its header against what the peer described.
  static Result<LeaseView> open(int fd, std::uint64_t cookie, const std::string& what);

  enum class State : std::uint8_t { kInForce, kEnded, kWrongToken };
  std::uint32_t slots() const noexcept { return slots_; }
  // For a ticket whose slot is below slots(). Orders every earlier load of the caller before its look at the
  // words: kInForce after a copy proves that the copy read lent memory from its first byte to its last.
  State look(const Ticket&) const noexcept;

 private:
  Mapping mapping_;
  std::uint32_t slots_ = 0;
};

}  // namespace kvferry::shm
