#include "sim/explorer.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "sim/explore_model.h"

namespace kvferry::sim {
namespace {

constexpr std::uint32_t kNone = ~0U;
constexpr std::size_t kKeptStates =
    200'000;  // of the frontier, as values; the rest is replayed from its path

// Fingerprint -> number of the state; open addressing.
class Visited {
 public:
  Visited() { table_.assign(1U << 16, Entry{}); }
  // The number of the state; `fresh` says whether it is new (then it gets `next`).
  std::uint32_t add(const Fingerprint& f, std::uint32_t next, bool& fresh) {
    if (2 * (count_ + 1) > table_.size()) grow();
    std::size_t i = static_cast<std::size_t>(f.a) & (table_.size() - 1);
    while (table_[i].number != kNone) {
      if (table_[i].print == f) {
        fresh = false;
        return table_[i].number;
      }
      i = (i + 1) & (table_.size() - 1);
    }
    table_[i] = {f, next};
    ++count_;
    fresh = true;
    return next;
  }

 private:
  struct Entry {
    Fingerprint print;
    std::uint32_t number = kNone;
  };
  void grow() {
    std::vector<Entry> old(table_.size() * 2);
    old.swap(table_);
    for (const Entry& e : old) {
      if (e.number == kNone) continue;
      std::size_t i = static_cast<std::size_t>(e.print.a) & (table_.size() - 1);
      while (table_[i].number != kNone) i = (i + 1) & (table_.size() - 1);
      table_[i] = e;
    }
  }
  std::vector<Entry> table_;
  std::size_t count_ = 0;
};

class Search {
 public:
  Search(const ExploreShape& shape, const ExploreOptions& o) : options_(o), model_(shape, o.removed) {
    result_.shape = shape.name;
    result_.budget = budget_of(shape);
  }

  ExploreResult run() {
    const auto began = std::chrono::steady_clock::now();
    Laws laws;
    ExploreState first = model_.initial(laws);
    root_ = first;
    add(std::move(first), kNone, 0);
    if (laws.breach()) broken(0, nullptr, *laws.breach());
    while (!frontier_.empty() && !result_.broken && parents_.size() <= options_.most_states) expand_next();
    result_.states = parents_.size();
    result_.closed = frontier_.empty() && !result_.broken;
    if (result_.closed) liveness();
    if (!result_.closed && !result_.broken) tell_open();
    result_.engines = model_.engines().size();
    result_.frames = model_.engines().frames();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(result_);
  }

 private:
  struct Parent {
    std::uint32_t state = kNone;
    std::uint16_t move = 0;
    bool answered = false;
  };
  struct Waiting {
    std::uint32_t number;
    std::unique_ptr<ExploreState> state;  // null: replay
  };

  std::uint32_t add(ExploreState&& s, std::uint32_t parent, std::uint16_t move, bool answered = false) {
    bool fresh = false;
    const auto next = static_cast<std::uint32_t>(parents_.size());
    const std::uint32_t number = visited_.add(model_.print(s), next, fresh);
    if (!fresh) return number;
    parents_.push_back({parent, move, answered});
    ends_.push_back(model_.closed(s));
    const bool keep = frontier_.size() < kKeptStates;
    frontier_.push_back({number, keep ? std::make_unique<ExploreState>(std::move(s)) : nullptr});
    return number;
  }

  void expand_next() {
    Waiting w = std::move(frontier_.front());
    frontier_.pop_front();
    const ExploreState s = w.state ? std::move(*w.state) : replay(w.number, nullptr);
    std::vector<ExploreMove> moves;
    model_.moves(s, moves);
    for (std::size_t i = 0; i < moves.size() && !result_.broken; ++i) {
      for (const bool answered : {false, true}) {
        const bool round_trip = moves[i].kind == ExploreMove::Kind::kDeliver;
        if (answered && (!moves[i].fair || !round_trip)) continue;
        Laws laws;
        ExploreState next = model_.apply(s, moves[i], answered, laws);
        if (laws.breach()) return broken(w.number, &moves[i], *laws.breach());
        ++result_.edges;
        const std::uint32_t to = add(std::move(next), w.number, static_cast<std::uint16_t>(i), answered);
        if (to != w.number && moves[i].fair && (answered || !round_trip)) fair_.emplace_back(w.number, to);
      }
    }
    if (options_.progress && ++expanded_ % 20000 == 0) options_.progress(parents_.size(), frontier_.size());
  }

  // From the start along the parents; texts of the moves into `steps` when asked for.
  ExploreState replay(std::uint32_t number, std::vector<std::string>* steps) {
    std::vector<std::uint32_t> path;
    for (std::uint32_t n = number; parents_[n].state != kNone; n = parents_[n].state) path.push_back(n);
    ExploreState s = root_;
    std::vector<ExploreMove> moves;
    for (std::size_t k = path.size(); k-- > 0;) {
      const Parent& p = parents_[path[k]];
      model_.moves(s, moves);
      if (steps != nullptr)
        steps->push_back(model_.text(s, moves[p.move]) + (p.answered ? " and is answered" : ""));
      Laws ignored;
      s = model_.apply(s, moves[p.move], p.answered, ignored);
    }
    return s;
  }

  void broken(std::uint32_t number, const ExploreMove* last, const Breach& breach) {
    Counterexample c;
    c.law = name_of(breach.law);
    c.text = breach.text;
    const ExploreState s = replay(number, &c.steps);
    if (last != nullptr) c.steps.push_back(model_.text(s, *last));
    result_.broken = std::move(c);
  }

  // Every state must be able to reach a closed one along fair moves.
  void liveness() {
    const std::size_t n = parents_.size();
    std::vector<std::uint32_t> first(n + 2, 0);
    for (const auto& e : fair_) ++first[e.second + 1];
    for (std::size_t k = 0; k < n; ++k) first[k + 1] += first[k];
    std::vector<std::uint32_t> back(fair_.size()), at(first.begin(), first.end());
    for (const auto& e : fair_) back[at[e.second]++] = e.first;
    std::vector<bool> good(n, false);
    std::vector<std::uint32_t> todo;
    for (std::uint32_t k = 0; k < n; ++k) {
      if (!ends_[k]) continue;
      good[k] = true;
      todo.push_back(k);
      ++result_.ends;
    }
    while (!todo.empty()) {
      const std::uint32_t x = todo.back();
      todo.pop_back();
      for (std::uint32_t k = first[x]; k < first[x + 1]; ++k) {
        if (good[back[k]]) continue;
        good[back[k]] = true;
        todo.push_back(back[k]);
      }
    }
    const auto stuck = static_cast<std::uint32_t>(std::find(good.begin(), good.end(), false) - good.begin());
    if (stuck < n) tell_stuck(stuck, static_cast<std::uint64_t>(std::count(good.begin(), good.end(), false)));
  }

  void tell_stuck(std::uint32_t state, std::uint64_t count) {
    Counterexample c;
    c.law = name_of(Law::kLiveness);
    replay(state, &c.steps);
    c.text =
        std::to_string(count) + " of " + std::to_string(parents_.size()) + " states cannot end without luck";
    std::sort(fair_.begin(), fair_.end());
    std::uint32_t x = state;
    std::vector<bool> seen(parents_.size(), false);
    for (std::size_t guard = 0; guard < 200; ++guard) {  // walk on to where the fair moves end
      seen[x] = true;
      auto it = std::lower_bound(fair_.begin(), fair_.end(), std::pair{x, 0U});
      while (it != fair_.end() && it->first == x && seen[it->second]) ++it;
      if (it == fair_.end() || it->first != x) break;
      c.after.push_back(move_text(x, it->second));
      x = it->second;
    }
    c.after.push_back("and nothing more helps: " + model_.show(replay(x, nullptr)));
    result_.broken = std::move(c);
  }

  // More states than allowed: the way to the newest one shows what keeps growing.
  void tell_open() {
    Counterexample c;
    c.law = "the search does not close";
    c.text = "more than " + std::to_string(options_.most_states) + " states; the way to the newest one:";
    replay(static_cast<std::uint32_t>(parents_.size() - 1), &c.steps);
    result_.broken = std::move(c);
  }

  std::string move_text(std::uint32_t from, std::uint32_t to) {
    const ExploreState s = replay(from, nullptr);
    std::vector<ExploreMove> moves;
    model_.moves(s, moves);
    for (const ExploreMove& m : moves) {
      for (const bool answered : {true, false}) {
        Laws ignored;
        bool fresh = false;
        const ExploreState next =
            model_.apply(s, m, answered && m.kind == ExploreMove::Kind::kDeliver, ignored);
        if (m.fair && visited_.add(model_.print(next), kNone - 1, fresh) == to) return model_.text(s, m);
      }
    }
    return "?";
  }

  ExploreOptions options_;
  ExploreModel model_;
  ExploreResult result_;
  ExploreState root_;
  Visited visited_;
  std::vector<Parent> parents_;
  std::vector<bool> ends_;
  std::deque<Waiting> frontier_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> fair_;
  std::uint64_t expanded_ = 0;
};

}  // namespace

ExploreResult explore(const ExploreShape& shape, const ExploreOptions& options) {
  return Search(shape, options).run();
}

}  // namespace kvferry::sim
