#include "transport/shm/loans.h"

#include <string>
#include <utility>

namespace kvferry::shm {

namespace {

std::string subject(LoanId id) {
  return "shm loan slot " + std::to_string(id.slot) + " serial " + std::to_string(id.serial);
}

}  // namespace

Loans::Loans(LeaseWriter words, transport::RegionTable& regions, std::uint32_t most)
    : words_(std::move(words)), regions_(regions), most_(most) {}

Result<> Loans::lend(const Loan& loan) {
  if (loan.access != Access::kRead) {
    return fail(Code::kUnsupported, Who::kLocal, Next::kNever, subject(loan.id),
                "memory is lent for reading only; this mover pulls (a write into a stopped process's memory "
                "could land "
                "later)");
  }
  if (loan.id.slot >= most_) {
    return fail(Code::kExhausted, Who::kLocal, Next::kNever, subject(loan.id),
                "slots run from 0 to " + std::to_string(most_ - 1) + " (shm.loans)");
  }
  if (loan.id.slot >= records_.size()) {
    records_.resize(loan.id.slot + 1);
  }
  Record& record = records_[loan.id.slot];
  if (record.readable) {
    return fail(Code::kRefused, Who::kLocal, Next::kRetry, subject(loan.id),
                "the slot is lent under serial " + std::to_string(record.serial) + "; revoke that first");
  }
  if (loan.id.serial <= record.serial) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, subject(loan.id),
                "serial " + std::to_string(record.serial) + " was used in this slot; serials only rise");
  }
  if (auto inside = regions_.check_loan(loan.groups); !inside) {
    return inside;
  }
  record.serial = loan.id.serial;
  record.peer = loan.peer;
  record.readable = true;
  record.fenced = false;
  record.hold = regions_.hold_loan(loan.groups);
  ++live_;
  words_.begin(loan.id.slot, loan.id.serial, loan.token);
  return {};
}

Result<> Loans::revoke(LoanId id) {
  Record* record = id.slot < records_.size() ? &records_[id.slot] : nullptr;
  if (record == nullptr || record->serial != id.serial || !(record->readable || record->fenced)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, subject(id), "no such loan is in force");
  }
  end(id.slot, *record);
  record->fenced = false;
  return {};
}

void Loans::revoke_peer(PeerId peer) {
  for (std::uint32_t slot = 0; slot < records_.size(); ++slot) {
    if (records_[slot].readable && records_[slot].peer == peer) {
      end(slot, records_[slot]);
      records_[slot].fenced = true;
    }
  }
}

bool Loans::any_to(PeerId peer) const noexcept {
  for (const Record& record : records_) {
    if (record.readable && record.peer == peer) return true;
  }
  return false;
}

void Loans::end(std::uint32_t slot, Record& record) {
  if (!record.readable) {
    return;
  }
  words_.end(slot);
  record.readable = false;
  regions_.release(record.hold);
  record.hold.clear();
  --live_;
}

}  // namespace kvferry::shm
