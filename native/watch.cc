// SPDX-License-Identifier: Apache-2.0
#include "watch.h"

#include <cerrno>
#include <exception>
#include <utility>

#include "errors.h"

namespace waggle {

Watched::Watched(Napi::Env env, const char* resource, std::string name)
    : env_(env), name_(std::move(name)), context_(std::make_unique<Napi::AsyncContext>(env, resource)) {}

Napi::Object StartWatch(std::shared_ptr<Watched> watched, int fd, Napi::Function callback) {
  Watched& self = *watched;
  Napi::Env env = self.env_;
  Napi::Object handle = Watch::New(env, WatchState{watched});
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok)
    throw SystemError(env, EINVAL, "napi_get_uv_event_loop", self.name_);
  if (int error = uv_poll_init(loop, &self.poll_, fd)) throw SystemError(env, -error, "uv_poll_init", self.name_);
  // From here on libuv holds it, and only Close() ends that.
  self.callback_ = Napi::Persistent(callback);
  self.handle_ = Napi::Persistent(handle);
  self.poll_.data = &self;
  self.self_ = std::move(watched);
  napi_add_async_cleanup_hook(env, Watched::OnEnvironmentEnd, &self, &self.hook_);
  try {
    self.Listen();
  } catch (...) {
    self.Close();
    throw;
  }
  return handle;
}

void Watched::Listen() {
  if (int error = uv_poll_start(&poll_, UV_READABLE, OnEvent)) throw SystemError(env_, -error, "uv_poll_start", name_);
}

void Watched::Close() {
  if (closing_) return;
  closing_ = true;
  // libuv first: it must not wait on a descriptor that is closed.
  uv_close(reinterpret_cast<uv_handle_t*>(&poll_), LetGo);
  Release();
  callback_.Reset();
  handle_.Reset();
}

void Watched::RefLoop() { uv_ref(reinterpret_cast<uv_handle_t*>(&poll_)); }

void Watched::UnrefLoop() { uv_unref(reinterpret_cast<uv_handle_t*>(&poll_)); }

void Watched::Call(std::initializer_list<napi_value> arguments) {
  callback_.Value().MakeCallback(handle_.Value(), arguments, *context_);
}

void Watched::OnEvent(uv_poll_t* poll, int status, int) {
  std::shared_ptr<Watched> self = static_cast<Watched*>(poll->data)->self_;
  Napi::HandleScope scope(self->env_);
  try {
    self->OnReadable(status);
  } catch (const Napi::Error& error) {
    // As an exception in any other event handler: 'uncaughtException'.
    napi_fatal_exception(self->env_, error.Value());
  } catch (const std::exception& error) {
    napi_fatal_exception(self->env_, Napi::Error::New(self->env_, error.what()).Value());
  }
}

void Watched::LetGo(uv_handle_t* poll) {
  auto* self = static_cast<Watched*>(poll->data);
  Napi::HandleScope scope(self->env_);
  // Not before: a close() in the callback still runs within this context.
  self->context_.reset();
  napi_remove_async_cleanup_hook(self->hook_);
  self->self_.reset();  // may delete it
}

void Watched::OnEnvironmentEnd(napi_async_cleanup_hook_handle, void* data) {
  auto* self = static_cast<Watched*>(data);
  Napi::HandleScope scope(self->env_);
  self->Close();
}

void Watch::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&Watch::RefLoop>("ref"),
                                InstanceMethod<&Watch::UnrefLoop>("unref"),
                                InstanceMethod<&Watch::Close>("close"),
                            }));
}

Watch::Watch(const Napi::CallbackInfo& info) : Handle(info) {}

Napi::Value Watch::RefLoop(const Napi::CallbackInfo& info) {
  RequireOpen(Args(info, "ref"));
  state_.watched->RefLoop();
  return info.Env().Undefined();
}

Napi::Value Watch::UnrefLoop(const Napi::CallbackInfo& info) {
  RequireOpen(Args(info, "unref"));
  state_.watched->UnrefLoop();
  return info.Env().Undefined();
}

Napi::Value Watch::Close(const Napi::CallbackInfo& info) {
  state_.watched->Close();
  return info.Env().Undefined();
}

}  // namespace waggle
