// SPDX-License-Identifier: Apache-2.0
#include "ring_buffer.h"

#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <uv.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "fd.h"
#include "map.h"

namespace waggle {
namespace {

// Delivered in one call at most (and one record more): a producer that never pauses must
// not keep the event loop.
constexpr size_t kBatchBytes = 1024 * 1024;

}  // namespace

// What libuv, the kernel and JavaScript share. It lives until libuv has let go of `poll`;
// the environment waits for that by way of `hook`.
struct Ring {
  explicit Ring(Napi::Env environment) : env(environment) {}
  ~Ring() {
    if (ring) ring_buffer__free(ring);
  }

  Napi::Env env;
  std::string name;
  UniqueFd map;
  ring_buffer* ring = nullptr;
  uv_poll_t poll = {};
  bool closing = false;
  napi_async_cleanup_hook_handle hook = nullptr;
  // Set while libuv has `poll`.
  std::shared_ptr<Ring> self;
  // While open it is wanted for its effect, though nobody holds the handle.
  Napi::ObjectReference handle;
  Napi::FunctionReference on_records;
  std::unique_ptr<Napi::AsyncContext> context;
  std::vector<uint8_t> records;
};

namespace {

void LetGo(uv_handle_t* handle) {
  auto* ring = static_cast<Ring*>(handle->data);
  Napi::HandleScope scope(ring->env);
  // Not before: a close() in the callback still runs within this context.
  ring->context.reset();
  napi_remove_async_cleanup_hook(ring->hook);
  ring->self.reset();  // may delete the ring
}

void CloseRing(Ring& ring) {
  if (ring.closing) return;
  ring.closing = true;
  // libuv first: it must not wait on a descriptor that is closed.
  uv_close(reinterpret_cast<uv_handle_t*>(&ring.poll), LetGo);
  ring_buffer__free(ring.ring);
  ring.ring = nullptr;
  ring.map.Reset();
  ring.on_records.Reset();
  ring.handle.Reset();
}

void OnEnvironmentEnd(napi_async_cleanup_hook_handle, void* data) {
  auto* ring = static_cast<Ring*>(data);
  Napi::HandleScope scope(ring->env);
  CloseRing(*ring);
}

// u32 length and record; a negative errno stops the walk after this record.
int Collect(void* context, void* data, size_t size) {
  auto& records = static_cast<Ring*>(context)->records;
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

void Deliver(Ring& ring) {
  Napi::Uint8Array bytes = Napi::Uint8Array::New(ring.env, ring.records.size());
  memcpy(bytes.Data(), ring.records.data(), ring.records.size());
  ring.on_records.Value().MakeCallback(ring.handle.Value(), {bytes}, *ring.context);
}

void OnReadable(uv_poll_t* poll, int status, int) {
  std::shared_ptr<Ring> ring = static_cast<Ring*>(poll->data)->self;
  Napi::HandleScope scope(ring->env);
  try {
    ring->records.clear();
    int error = status < 0 ? status : ring_buffer__consume(ring->ring);
    if (!ring->records.empty()) Deliver(*ring);
    if (error < 0 && error != -EAGAIN) throw SystemError(ring->env, -error, "ring_buffer__consume", ring->name);
  } catch (const Napi::Error& error) {
    // As an exception in any other event handler: 'uncaughtException'.
    napi_fatal_exception(ring->env, error.Value());
  } catch (const std::exception& error) {
    napi_fatal_exception(ring->env, Napi::Error::New(ring->env, error.what()).Value());
  }
}

}  // namespace

void RingBuffer::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&RingBuffer::RefLoop>("ref"),
                                InstanceMethod<&RingBuffer::UnrefLoop>("unref"),
                                InstanceMethod<&RingBuffer::Close>("close"),
                            }));
}

RingBuffer::RingBuffer(const Napi::CallbackInfo& info) : Handle(info) {}

bool RingBuffer::open() const { return state_.ring && !state_.ring->closing; }

Napi::Value OpenRingBuffer(const Napi::CallbackInfo& info) {
  Args args(info, "openRingBuffer");
  Napi::Env env = info.Env();
  BpfMap& map = BpfMap::From(args, info[0], "map");
  Napi::Function on_records = args.GetFunction(1, "onRecords");
  const std::string& name = map.name();
  if (map.state().type != BPF_MAP_TYPE_RINGBUF) throw SystemError(env, EINVAL, "openRingBuffer", name);

  auto ring = std::make_shared<Ring>(env);
  ring->name = name;
  ring->map = UniqueFd::Duplicate(map.state().fd.get());
  if (!ring->map.valid()) throw SystemError(env, errno, "fcntl", name);
  {
    LogCapture log;
    ring->ring = ring_buffer__new(ring->map.get(), Collect, ring.get(), nullptr);
    if (!ring->ring) throw SystemError(env, errno, "ring_buffer__new", name, log.text());
  }
  ring->context = std::make_unique<Napi::AsyncContext>(env, "waggle:RingBuffer");
  ring->on_records = Napi::Persistent(on_records);
  Napi::Object handle = RingBuffer::New(env, RingBufferState{ring, name});
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw SystemError(env, EINVAL, "napi_get_uv_event_loop", name);
  if (int error = uv_poll_init(loop, &ring->poll, ring_buffer__epoll_fd(ring->ring)))
    throw SystemError(env, -error, "uv_poll_init", name);
  // From here on libuv holds the ring, and only CloseRing ends it.
  ring->handle = Napi::Persistent(handle);
  ring->poll.data = ring.get();
  ring->self = ring;
  napi_add_async_cleanup_hook(env, OnEnvironmentEnd, ring.get(), &ring->hook);
  if (int error = uv_poll_start(&ring->poll, UV_READABLE, OnReadable)) {
    CloseRing(*ring);
    throw SystemError(env, -error, "uv_poll_start", name);
  }
  return handle;
}

Napi::Value RingBuffer::RefLoop(const Napi::CallbackInfo& info) {
  RequireOpen(Args(info, "ref"));
  uv_ref(reinterpret_cast<uv_handle_t*>(&state_.ring->poll));
  return info.Env().Undefined();
}

Napi::Value RingBuffer::UnrefLoop(const Napi::CallbackInfo& info) {
  RequireOpen(Args(info, "unref"));
  uv_unref(reinterpret_cast<uv_handle_t*>(&state_.ring->poll));
  return info.Env().Undefined();
}

Napi::Value RingBuffer::Close(const Napi::CallbackInfo& info) {
  if (open()) CloseRing(*state_.ring);
  return info.Env().Undefined();
}

}  // namespace waggle
