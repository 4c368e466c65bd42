#include "transport/shm/worker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace kvferry::shm {

Result<std::unique_ptr<Worker>> Worker::start() {
  File wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!wake) {
    return system_error("shm helper thread", "eventfd failed", errno);
  }
  try {
    return std::make_unique<Worker>(std::move(wake));
  } catch (const std::system_error& error) {
    return system_error("shm helper thread", "it cannot be started", error.code().value());
  }
}

Worker::Worker(File wake) : wake_(std::move(wake)), thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
  }
  work_or_stop_.notify_one();
  thread_.join();
}

void Worker::submit(Work work, Done done) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), std::move(done)});
  }
  work_or_stop_.notify_one();
}

void Worker::discard(std::shared_ptr<void> last) {
  submit([last = std::move(last)](const Stop&) mutable { last.reset(); }, nullptr);
}

std::vector<Worker::Done> Worker::take() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_.fd(), &count, sizeof count));  // empty: nothing finished since
  const std::lock_guard lock(mutex_);
  return std::exchange(finished_, {});
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_or_stop_.wait(lock, [this] { return stop_.load() || !queue_.empty(); });
    if (stop_.load()) {
      return;
    }
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job.work(stop_);
    job.work = nullptr;  // what it holds is released here, not on the progress thread
    lock.lock();
    if (job.done) {
      finished_.push_back(std::move(job.done));
      const std::uint64_t one = 1;
      static_cast<void>(!::write(wake_.fd(), &one, sizeof one));
    }
  }
}

}  // namespace kvferry::shm
