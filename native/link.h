// SPDX-License-Identifier: Apache-2.0
//
// link.h: a program's attachment that can be pinned and updated in place.
#pragma once

#include <napi.h>

#include <string>

#include "fd.h"
#include "handle.h"

namespace waggle {

struct LinkState {
  UniqueFd fd;
  // Where it was attached or opened; for errors.
  std::string name;
};

class BpfLink : public Handle<BpfLink, LinkState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kLink;
  static constexpr const char* kName = "BpfLink";
  static constexpr napi_type_tag kTag = {0x7761676c6c696e6b, 0xa2c4e6f801234567};

  static void Init(Napi::Env env);
  static Napi::Object Make(const Args& args, UniqueFd fd, std::string name);

  explicit BpfLink(const Napi::CallbackInfo& info);

  bool open() const { return state_.fd.valid(); }
  const std::string& name() const { return state_.name; }

 private:
  static Napi::Value Info(const Napi::CallbackInfo& info);
  Napi::Value Update(const Napi::CallbackInfo& info);
  Napi::Value Detach(const Napi::CallbackInfo& info);
  Napi::Value PinAt(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

// native.openLink(path)
Napi::Value OpenLink(const Napi::CallbackInfo& info);

}  // namespace waggle
