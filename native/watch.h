// SPDX-License-Identifier: Apache-2.0
//
// watch.h: a descriptor on the event loop that calls a JavaScript function until closed.
#pragma once

#include <napi.h>
#include <uv.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "handle.h"

namespace waggle {

// What libuv, the kernel and JavaScript share. It lives until libuv has let go of it; the
// environment waits for that.
class Watched {
 public:
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void Close();
  void RefLoop();
  void UnrefLoop();
  bool closing() const { return closing_; }
  const std::string& name() const { return name_; }

 protected:
  // `resource` is what async_hooks call its callbacks; `name` is what errors call it.
  Watched(Napi::Env env, const char* resource, std::string name);

  // The descriptor can be read or, with a negative `status`, libuv has stopped because of an
  // error on it. What it throws is reported like an exception in any other event handler.
  virtual void OnReadable(int status) = 0;
  // libuv does not wait on the descriptor any more: close it.
  virtual void Release() = 0;

  void Listen();
  void Call(std::initializer_list<napi_value> arguments);

  Napi::Env env_;

 private:
  friend Napi::Object StartWatch(std::shared_ptr<Watched> watched, int fd, Napi::Function callback);
  static void OnEvent(uv_poll_t* poll, int status, int events);
  static void LetGo(uv_handle_t* poll);
  static void OnEnvironmentEnd(napi_async_cleanup_hook_handle hook, void* data);

  std::string name_;
  uv_poll_t poll_ = {};
  bool closing_ = false;
  napi_async_cleanup_hook_handle hook_ = nullptr;
  // Set while libuv has poll_.
  std::shared_ptr<Watched> self_;
  // While open it is wanted for its effect, though nobody holds the handle.
  Napi::ObjectReference handle_;
  Napi::FunctionReference callback_;
  std::unique_ptr<Napi::AsyncContext> context_;
};

// Waits on `fd` and returns the handle, a Watch; nothing is left when it throws.
Napi::Object StartWatch(std::shared_ptr<Watched> watched, int fd, Napi::Function callback);

struct WatchState {
  std::shared_ptr<Watched> watched;
};

class Watch : public Handle<Watch, WatchState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kWatch;
  static constexpr const char* kName = "Watch";
  static constexpr napi_type_tag kTag = {0x7761676c72696e67, 0xc4e6081a2b3d5f71};

  static void Init(Napi::Env env);

  explicit Watch(const Napi::CallbackInfo& info);

  bool open() const { return !state_.watched->closing(); }
  const std::string& name() const { return state_.watched->name(); }

 private:
  Napi::Value RefLoop(const Napi::CallbackInfo& info);
  Napi::Value UnrefLoop(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace waggle
