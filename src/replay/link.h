// The words between the parent and one worker: small fixed messages over a stream socket pair. Thread rule:
// one thread for each end; nothing blocks.
#pragma once

#include <cstdint>
#include <vector>

namespace kvferry::replay {

struct Message {
  enum class Kind : std::uint32_t {
    // parent -> worker
    kOpen,  // request, attempt, peer (decode: slot of the prefill process), abort_percent, pause_percent
    kRelease,  // request: decode frees what it holds
    kAbort,  // request: now
    kResume,  // request: go on behind pause_percent
    kQuit,  // stop the manager, check all free pages, say kBye and end
    // worker -> parent
    kReady,  // the manager runs
    kTrouble,  // it does not: WorkerSlot::trouble; the worker ends
    kOpened,  // request, attempt
    kFailing,  // request, attempt: the cause is in SideRecord
    kTerminal,  // request, attempt: SideRecord::state is kSuccess or kFailed
    kProven,  // request, attempt: decode has checked every byte of a success
    kBye,
  };
  static constexpr std::int32_t kNever = -2;  // for abort_percent and pause_percent
  static constexpr std::int32_t kAtOpen = -1;  // abort_percent: right after open(), before anything is known

  Kind kind = Kind::kQuit;
  std::uint32_t request = 0;
  std::uint32_t attempt = 0;
  std::uint32_t peer = 0;
  std::int32_t abort_percent =
      kNever;  // abort when so much of the prompt was pushed (prefill) or landed (decode)
  std::int32_t pause_percent = kNever;  // prefill: stop pushing there until kResume, like a slow computation
};

class Link {
 public:
  explicit Link(int fd);  // owns it, makes it non-blocking
  ~Link();
  Link(Link&&) noexcept;
  Link& operator=(Link&&) noexcept;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int fd() const noexcept { return fd_; }
  void send(const Message&);  // queues; flush() sends
  bool flush();  // false: the other end is gone
  bool unsent() const noexcept { return sent_ < out_.size(); }
  bool receive(std::vector<Message>&);  // appends; false: the other end is gone

 private:
  int fd_ = -1;
  std::vector<std::uint8_t> out_;
  std::size_t sent_ = 0;
  std::vector<std::uint8_t> in_;
};

}  // namespace kvferry::replay
