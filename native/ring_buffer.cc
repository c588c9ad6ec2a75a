// SPDX-License-Identifier: Apache-2.0
#include "ring_buffer.h"

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fd.h"
#include "map.h"
#include "watch.h"

namespace waggle {
namespace {

// Delivered in one call at most (and one record more): a producer that never pauses must
// not keep the event loop.
constexpr size_t kBatchBytes = 1024 * 1024;

class Ring : public Watched {
 public:
  Ring(Napi::Env env, const std::string& name, UniqueFd map)
      : Watched(env, "waggle:RingBuffer", name), map_(std::move(map)) {
    LogCapture log;
    ring_ = ring_buffer__new(map_.get(), Collect, this, nullptr);
    if (!ring_) throw SystemError(env, errno, "ring_buffer__new", name, log.text());
  }
  ~Ring() override { ring_buffer__free(ring_); }

  int fd() const { return ring_buffer__epoll_fd(ring_); }

 private:
  void OnReadable(int status) override {
    records_.clear();
    int error = status < 0 ? status : ring_buffer__consume(ring_);
    if (!records_.empty()) Deliver();
    if (error < 0 && error != -EAGAIN) throw SystemError(env_, -error, "ring_buffer__consume", name());
  }

  void Release() override {
    ring_buffer__free(ring_);
    ring_ = nullptr;
    map_.Reset();
  }

  // u32 length and record; a negative errno stops the walk after this record.
  static int Collect(void* context, void* data, size_t size) {
    auto& records = static_cast<Ring*>(context)->records_;
    auto length = static_cast<uint32_t>(size);
    try {
      size_t at = records.size();
      records.resize(at + sizeof(length) + size);
      memcpy(records.data() + at, &length, sizeof(length));
      memcpy(records.data() + at + sizeof(length), data, size);
    } catch (const std::exception&) {
      return -ENOMEM;
    }
    return records.size() >= kBatchBytes ? -EAGAIN : 0;
  }

  void Deliver() {
    Napi::Uint8Array bytes = Napi::Uint8Array::New(env_, records_.size());
    memcpy(bytes.Data(), records_.data(), records_.size());
    Call({bytes});
  }

  UniqueFd map_;
  ring_buffer* ring_ = nullptr;
  std::vector<uint8_t> records_;
};

}  // namespace

Napi::Value OpenRingBuffer(const Napi::CallbackInfo& info) {
  Args args(info, "openRingBuffer");
  Napi::Env env = info.Env();
  BpfMap& map = BpfMap::From(args, info[0], "map");
  Napi::Function on_records = args.GetFunction(1, "onRecords");
  const std::string& name = map.name();
  if (map.state().type != BPF_MAP_TYPE_RINGBUF) throw SystemError(env, EINVAL, "openRingBuffer", name);

  UniqueFd copy = UniqueFd::Duplicate(map.state().fd.get());
  if (!copy.valid()) throw SystemError(env, errno, "fcntl", name);
  auto ring = std::make_shared<Ring>(env, name, std::move(copy));
  return StartWatch(ring, ring->fd(), on_records);
}

}  // namespace waggle
