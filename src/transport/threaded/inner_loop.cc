#include "transport/threaded/inner_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "transport/path_events.h"

namespace kvferry::threaded {

namespace {

constexpr std::size_t kBatch = 64;  // events of one progress() of the mover

tl::unexpected<Error> queue_full(const char* name, std::size_t limit) {
  return fail(Code::kWouldBlock, Who::kTransport, Next::kRetry, "threaded mover",
              "its queue is full (" + std::string(name) + " = " + std::to_string(limit) +
                  "): a call of the mover behind it blocks, or it is slow");
}

tl::unexpected<Error> stopped() {
  return fail(Code::kRefused, Who::kLocal, Next::kNever, "threaded mover", "it was stopped");
}

}  // namespace

EventFd::EventFd() noexcept : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventFd::~EventFd() {
  if (fd_ >= 0) ::close(fd_);
}

void EventFd::raise() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(fd_, &one, sizeof one));
}

void EventFd::clear() noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(fd_, &count, sizeof count));
}

InnerLoop::InnerLoop(std::unique_ptr<Transport> inner, const ThreadedOptions& options)
    : options_(options), inner_(std::move(inner)), description_(inner_->describe()) {}

Result<> InnerLoop::command(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return stopped();
    if (commands_.size() >= options_.commands) return queue_full("threaded.commands", options_.commands);
    commands_.push_back(std::move(command));
  }
  kick_.raise();
  return {};
}

Result<> InnerLoop::post(const Operation& operation) {
  auto owned = std::make_unique<OwnedOperation>(operation);
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return stopped();
    if (posts_.size() >= options_.posts) return queue_full("threaded.posts", options_.posts);
    posts_.push_back(std::move(owned));
  }
  kick_.raise();
  return {};
}

bool InnerLoop::drop_peer(PeerId id, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || commands_.size() >= options_.commands) return false;
    ++dropping_[id];
    transport::forget_path(events_, id);
    commands_.push_back([this, id, why](Transport& inner) {
      end_queued(id, why);
      inner.drop_peer(id);
      const std::lock_guard done(mutex_);
      if (const auto found = dropping_.find(id); --found->second == 0) dropping_.erase(found);
    });
  }
  kick_.raise();
  return true;
}

Result<std::shared_ptr<InnerLoop::Answer>> InnerLoop::ask(std::function<Result<>(Transport&)> question) {
  auto answer = std::make_shared<Answer>();
  auto queued = command([this, answer, question = std::move(question)](Transport& inner) {
    {
      const std::lock_guard lock(mutex_);
      if (answer->state == Answer::State::kWithdrawn) return;
      answer->state = Answer::State::kRunning;
    }
    auto result = question(inner);
    {
      const std::lock_guard lock(mutex_);
      answer->result = std::move(result);
      answer->state = Answer::State::kDone;
    }
    changed_.notify_all();
  });
  if (!queued) return tl::unexpected(queued.error());
  return answer;
}

InnerLoop::Answer::State InnerLoop::wait(Answer& answer, Duration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&answer] { return answer.state == Answer::State::kDone; });
  if (answer.state == Answer::State::kQueued) answer.state = Answer::State::kWithdrawn;
  return answer.state;
}

std::size_t InnerLoop::take(std::span<Event> out) {
  bool was_full = false;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    was_full = events_.size() >= options_.events;
    count = std::min(out.size(), events_.size());
    const auto end = events_.begin() + static_cast<std::ptrdiff_t>(count);
    std::move(events_.begin(), end, out.begin());
    events_.erase(events_.begin(), end);
    if (events_.empty()) wake_.clear();
  }
  if (was_full && count != 0) kick_.raise();
  return count;
}

bool InnerLoop::has_events() const {
  const std::lock_guard lock(mutex_);
  return !events_.empty();
}

std::vector<std::byte> InnerLoop::description() const {
  const std::lock_guard lock(mutex_);
  return description_;
}

bool InnerLoop::stopping() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool InnerLoop::stop(Duration limit) {
  std::unique_lock lock(mutex_);
  stop_ = true;
  kick_.raise();
  return changed_.wait_for(lock, limit, [this] { return ended_; });
}

void InnerLoop::push(Event event) {
  if (transport::speaks_of_path(event) && dropping_.contains(event.peer)) return;
  if (events_.empty()) wake_.raise();
  events_.push_back(std::move(event));
}

void InnerLoop::tell(Event event) {
  const std::lock_guard lock(mutex_);
  push(std::move(event));
}

void InnerLoop::tell_ended(OpId op, PeerId peer, const Error& error) {
  Event event;
  event.kind = Event::Kind::kCompleted;
  event.op = op;
  event.peer = peer;
  event.error = error;
  tell(event);
  event.kind = Event::Kind::kQuiesced;
  event.error = {};
  tell(std::move(event));
}

void InnerLoop::end_queued(PeerId peer, const Error& error) {
  std::vector<OpId> ended;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(posts_, [&](const std::unique_ptr<OwnedOperation>& post) {
      if (post->head.peer != peer) return false;
      ended.push_back(post->head.op);
      return true;
    });
  }
  for (const OpId op : ended) tell_ended(op, peer, error);
}

bool InnerLoop::end_queued(OpId op, const Error& error) {
  PeerId peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(posts_.begin(), posts_.end(), [op](const auto& post) { return post->head.op == op; });
    if (found == posts_.end()) return false;
    peer = (*found)->head.peer;
    posts_.erase(found);
  }
  tell_ended(op, peer, error);
  return true;
}

void InnerLoop::run() {
  while (!stopping()) {
    kick_.clear();
    bool did = run_commands();
    did = hand_posts() || did;
    did = take_progress() || did;
    if (!did && (!inner_->busy() || full())) sleep();
  }
  inner_.reset();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

bool InnerLoop::run_commands() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (std::size_t i = 0; i < commands.size() && !stopping(); ++i) commands[i](*inner_);
  return !commands.empty();
}

bool InnerLoop::hand_posts() {
  bool did = false;
  while (true) {
    std::unique_ptr<OwnedOperation> post;
    {
      const std::lock_guard lock(mutex_);
      // Commands go first: a fence or a cancel must not wait behind posts that block.
      if (stop_ || posts_.empty() || !commands_.empty() || events_.size() >= options_.events) return did;
      post = std::move(posts_.front());
      posts_.pop_front();
    }
    auto posted = inner_->post(post->head);
    stalled_ = !posted && posted.error().code == Code::kWouldBlock;
    if (stalled_) {
      const std::lock_guard lock(mutex_);
      posts_.push_front(std::move(post));
      return did;
    }
    did = true;
    if (!posted) tell_ended(post->head.op, post->head.peer, posted.error());
  }
}

bool InnerLoop::take_progress() {
  std::array<Event, kBatch> out;
  std::size_t room = 0;
  {
    const std::lock_guard lock(mutex_);
    room = std::min(kBatch, options_.events - std::min<std::size_t>(options_.events, events_.size()));
  }
  if (room == 0) return false;
  const std::size_t count = inner_->progress(std::span(out).first(room));
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(count);
  if (std::any_of(out.begin(), end,
                  [](const Event& event) { return event.kind == Event::Kind::kRegionReady; })) {
    auto description = inner_->describe();
    const std::lock_guard lock(mutex_);
    description_ = std::move(description);
  }
  const std::lock_guard lock(mutex_);
  for (auto event = out.begin(); event != end; ++event) push(std::move(*event));
  return count != 0;
}

bool InnerLoop::full() const {
  const std::lock_guard lock(mutex_);
  return events_.size() >= options_.events;
}

void InnerLoop::sleep() {
  std::array<pollfd, 2> wait{pollfd{kick_.fd(), POLLIN, 0}, pollfd{inner_->wake_fd(), POLLIN, 0}};
  const bool poll_me = inner_->wake_fd() < 0 || stalled_;
  const auto idle = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.idle);
  const timespec limit{idle.count() / 1'000'000'000, idle.count() % 1'000'000'000};
  if (full())
    wait[1].fd = -1;  // only the taker's kick helps; the mover's descriptor may stay readable all the time
  ::ppoll(wait.data(), wait.size(), poll_me ? &limit : nullptr, nullptr);
}

}  // namespace kvferry::threaded
