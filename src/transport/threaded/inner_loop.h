// The two queues between a progress thread and the thread of a mover that may block, and the loop of that
// thread. Thread rule: each method says whose it is; the lock is never held during a call of the mover.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/threaded/owned.h"
#include "transport/threaded/threaded_transport.h"

namespace kvferry::threaded {

class EventFd {  // a counter that poll() understands; any thread
 public:
  EventFd() noexcept;
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  int fd() const noexcept { return fd_; }  // -1: the system gave none
  void raise() noexcept;
  void clear() noexcept;

 private:
  int fd_ = -1;
};

class InnerLoop {
 public:
  using Command = std::function<void(Transport&)>;

  // The answer to a call that waits for the mover.
  struct Answer {
    enum class State : std::uint8_t { kQueued, kRunning, kDone, kWithdrawn } state = State::kQueued;
    Result<> result;
  };

  InnerLoop(std::unique_ptr<Transport> inner, const ThreadedOptions& options);

  // ---- of the progress thread
  bool usable() const noexcept { return kick_.fd() >= 0 && wake_.fd() >= 0; }
  Result<> command(Command);                           // kWouldBlock when the queue is full
  Result<> post(const Operation&);                     // likewise
  bool drop_peer(PeerId, const Error& why);            // false: the queue is full; nothing was done
  Result<std::shared_ptr<Answer>> ask(std::function<Result<>(Transport&)>);
  Answer::State wait(Answer&, Duration patience);      // withdraws it if it was not begun in that time
  std::size_t take(std::span<Event> out);
  bool has_events() const;
  std::vector<std::byte> description() const;
  int wake_fd() const noexcept { return wake_.fd(); }
  bool stop(Duration limit);                           // true: run() has ended
  bool stopping() const;

  // ---- of the mover's thread
  void run();
  void tell(Event);                                    // in a Command too
  void tell_ended(OpId, PeerId, const Error&);         // kCompleted and kQuiesced
  void end_queued(PeerId, const Error&);               // posts to that peer which the mover has not taken
  bool end_queued(OpId, const Error&);                 // false: the mover has it

 private:
  bool run_commands();
  bool hand_posts();   // true: the mover took one
  bool take_progress();
  bool full() const;   // of events that nobody took
  void sleep();
  void push(Event);    // with the lock held

  const ThreadedOptions options_;
  std::unique_ptr<Transport> inner_;  // the mover's thread only
  EventFd kick_, wake_;
  mutable std::mutex mutex_;          // guards all below
  std::condition_variable changed_;   // an answer or the end
  std::deque<Command> commands_;
  std::deque<std::unique_ptr<OwnedOperation>> posts_;
  std::deque<Event> events_;
  std::map<PeerId, std::uint32_t> dropping_;  // drops not yet carried out: what is said of those paths is old
  std::vector<std::byte> description_;
  bool stop_ = false, ended_ = false;
  bool stalled_ = false;  // the mover said kWouldBlock to the first post; the mover's thread only
};

}  // namespace kvferry::threaded
