// SPDX-License-Identifier: Apache-2.0
//
// handle.h: a JavaScript object that owns something of the kernel's.
// Objects of a class come from native code only (`new map.constructor()` throws) and carry
// a type tag, so a handle of one class is never taken for another. close() is explicit and
// may be repeated; what is never closed goes with its object or its environment.
#pragma once

#include <napi.h>

#include <array>
#include <string>
#include <utility>

#include "args.h"
#include "errors.h"

namespace waggle {

enum class HandleClass { kMap, kProgram, kLink, kObject, kWatch, kCount };

// The constructors of one environment (the main thread or a worker).
struct EnvData {
  std::array<Napi::FunctionReference, static_cast<size_t>(HandleClass::kCount)> constructors;
};

// T has: static constexpr HandleClass kClass; static constexpr const char* kName;
// static constexpr napi_type_tag kTag; bool open() const; const std::string& name() const.
template <class T, class State>
class Handle : public Napi::ObjectWrap<T> {
 public:
  explicit Handle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<T>(info) {
    if (!pending_)
      throw WrongType(info.Env(), T::kName, "objects of this class are made by the addon's functions only");
    state_ = std::move(*std::exchange(pending_, nullptr));
    info.This().template As<Napi::Object>().TypeTag(&T::kTag);
  }

  static Napi::Object New(Napi::Env env, State state) {
    pending_ = &state;
    try {
      auto* data = env.GetInstanceData<EnvData>();
      return data->constructors[static_cast<size_t>(T::kClass)].New({});
    } catch (...) {
      pending_ = nullptr;
      throw;
    }
  }

  static void Register(Napi::Env env, Napi::Function constructor) {
    env.GetInstanceData<EnvData>()->constructors[static_cast<size_t>(T::kClass)] = Napi::Persistent(constructor);
  }

  // The open handle in `value`; throws when it is none of this class, or closed.
  static T& From(const Args& args, const Napi::Value& value, const char* name) {
    if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&T::kTag))
      throw WrongType(args.env(), args.function(), std::string(name) + " must be a " + T::kName);
    T* handle = Napi::ObjectWrap<T>::Unwrap(value.As<Napi::Object>());
    handle->RequireOpen(args);
    return *handle;
  }

  void RequireOpen(const Args& args) const {
    const T* self = static_cast<const T*>(this);
    if (!self->open()) throw Closed(args.env(), args.function(), self->name());
  }

 protected:
  State state_;

 private:
  // Set while native code constructs: the constructor takes its state from here.
  static inline thread_local State* pending_ = nullptr;
};

}  // namespace waggle
