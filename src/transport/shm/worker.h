// One helper thread for what may take long: touching, adopting, mapping and unmapping big ranges. Thread
// rule: submit, discard, take and the destructor belong to the progress thread; a job's `work` runs on the
// helper, its `done` on the progress thread. The queue is bounded by its callers: one job for each region and
// peer, one discard for each peer.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kvferry/error.h"
#include "transport/shm/file.h"
#include "transport/shm/mapping.h"

namespace kvferry::shm {

class Worker {
 public:
  using Work = std::function<void(const Stop&)>;  // returns early when the Stop becomes true
  using Done = std::function<void()>;

  static Result<std::unique_ptr<Worker>> start();
  explicit Worker(File wake);
  ~Worker();  // tells the running job to stop and waits for it; jobs that wait are forgotten, their `done`
              // never runs
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(Work, Done);
  void discard(
      std::shared_ptr<void> last);  // destroys it on the helper: unmapping gigabytes takes milliseconds
  std::vector<Done> take();  // of finished jobs, in order
  int wake_fd() const noexcept { return wake_.fd(); }  // readable while take() has something

 private:
  struct Job {
    Work work;
    Done done;
  };
  void run();

  File wake_;
  Stop stop_{false};
  std::mutex mutex_;  // guards queue_ and finished_
  std::condition_variable work_or_stop_;
  std::deque<Job> queue_;
  std::vector<Done> finished_;
  std::thread thread_;
};

}  // namespace kvferry::shm
