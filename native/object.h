// SPDX-License-Identifier: Apache-2.0
//
// object.h: an ELF object, from opening over its settings to loaded maps and programs.
#pragma once

#include <bpf/libbpf.h>
#include <napi.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "handle.h"

namespace waggle {

struct ObjectCloser {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

struct ObjectState {
  // libbpf reads from these bytes until the object is loaded: freed after it.
  std::vector<char> elf;
  std::unique_ptr<bpf_object, ObjectCloser> object;
  std::string name;
  // By their names in the ELF: reusing a map renames it inside libbpf.
  std::vector<std::pair<std::string, bpf_map*>> maps;
  // A load may be tried once, whatever comes of it.
  bool tried = false;
  bool loaded = false;
};

class BpfObject : public Handle<BpfObject, ObjectState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kObject;
  static constexpr const char* kName = "BpfObject";
  static constexpr napi_type_tag kTag = {0x7761676c6f626a65, 0xb3d5f7091a2c4e60};

  static void Init(Napi::Env env);

  explicit BpfObject(const Napi::CallbackInfo& info);

  bool open() const { return state_.object != nullptr; }
  const std::string& name() const { return state_.name; }

 private:
  Napi::Value MapNames(const Napi::CallbackInfo& info);
  Napi::Value ProgramNames(const Napi::CallbackInfo& info);
  Napi::Value SetMaxEntries(const Napi::CallbackInfo& info);
  Napi::Value ReuseMap(const Napi::CallbackInfo& info);
  Napi::Value SetConstant(const Napi::CallbackInfo& info);
  Napi::Value SetAutoload(const Napi::CallbackInfo& info);
  Napi::Value Load(const Napi::CallbackInfo& info);
  Napi::Value Map(const Napi::CallbackInfo& info);
  Napi::Value Program(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  void RequireBeforeLoad(const Args& args) const;
  void RequireLoaded(const Args& args) const;
  bpf_map* FindMap(const Args& args, const std::string& name) const;
  bpf_program* FindProgram(const Args& args, const std::string& name) const;
};

// native.openObject(path)
Napi::Value OpenObject(const Napi::CallbackInfo& info);

}  // namespace waggle
