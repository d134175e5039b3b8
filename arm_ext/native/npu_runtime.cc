// SPDX-License-Identifier: Apache-2.0
#include "npu_runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "npu_settings.h"

namespace arm_ext {
namespace {

// All of this is one model's, since each model.so has its own. The lock is held as long as a job
// runs: jobs share buffers, and an NPU runs one at a time.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
bool held = false;  // for the end of the process, which must not wait
Session* sessions = nullptr;
Device device;
Failure device_failure;  // lasting
Settings settings;
bool settings_read = false;

struct Lock {
  Lock() {
    pthread_mutex_lock(&lock);
    __atomic_store_n(&held, true, __ATOMIC_RELAXED);
  }
  ~Lock() {
    __atomic_store_n(&held, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
  }
};

/*! \brief Whether a session stands before that of a call. */
bool Before(const Session& session, const Call& call) {
  return session.region != call.region ? session.region < call.region : session.model < call.model;
}

/*! \brief The session of a call's region, its payload checked if it is new; sessions are by region.
 */
Failure Find(const Call& call, Session** found) {
  Session** place = &sessions;
  while (*place != nullptr && Before(**place, call)) place = &(*place)->next;
  if (*place != nullptr && (*place)->region == call.region && (*place)->model == call.model) {
    *found = *place;
    const uint8_t* digest = StatedDigest(call.payload, call.payload_bytes);
    bool same = digest != nullptr && memcmp(digest, (*found)->payload.digest, kSha256Bytes) == 0;
    return same ? Failure()
                : Failed(Scope::kRegion, "it is not the one that the region had before");
  }
  Session* session = static_cast<Session*>(calloc(1, sizeof(Session)));
  if (session == nullptr) return Failed(Scope::kCall, "no memory to check it");
  if (Failure bad = ReadPayload(call.payload, call.payload_bytes, &session->payload)) {
    free(session);
    return bad;
  }
  session->region = call.region;
  session->model = call.model;
  const Payload& payload = session->payload;
  session->view =
      LookOver(payload.commands, payload.command_bytes, payload.tensors[payload.inputs].region);
  session->next = *place;
  *found = *place = session;
  return {};
}

/*! \brief Runs a region unless that is known to fail. */
Failure Attempt(const Call& call, Session* session) {
  if (settings.mode == Mode::kCpu) return Failed(Scope::kCall, "ARM_EXT_NPU is cpu");
  if (session->payload.config >> 28 == 0) {
    return Failed(Scope::kAbsent, "Linux has no driver for %s", session->payload.accelerator);
  }
  if (device_failure) return device_failure;
  if (session->failure.scope == Scope::kRegion) return session->failure;
  Failure failure = Execute(call, settings.timeout_ms, &device, session);
  if (failure.scope == Scope::kDevice || failure.scope == Scope::kAbsent) {
    Close(&device);
    device_failure = failure;
  }
  return failure;
}

// The end of model.so, by dlclose or with the process. A job of another thread, which then still
// runs, keeps what it uses; the process is about to end, and its memory with it.
__attribute__((destructor)) void End() {
  if (__atomic_load_n(&held, __ATOMIC_RELAXED)) return;
  Close(&device);
  while (sessions != nullptr) {
    Session* next = sessions->next;
    free(sessions);
    sessions = next;
  }
}

}  // namespace

Failure Run(const Call& call, bool* ran) {
  Lock held_here;
  *ran = false;
  if (!settings_read) {
    if (Failure bad = ReadSettings(&settings)) return bad;
    settings_read = true;
  }
  Session* session = nullptr;
  Failure bad = Find(call, &session);
  if (!bad) bad = CheckTensors(call, session->payload);
  if (bad) {
    return Failed(bad.scope, "NPU payload of region %lld: %s", static_cast<long long>(call.region),
                  bad.text);
  }
  session->failure = Attempt(call, session);
  if (!session->failure) {
    *ran = true;
    ++session->on_npu;
    return {};
  }
  bool absent = session->failure.scope == Scope::kAbsent;
  if (settings.mode == Mode::kNpu || (settings.mode == Mode::kAuto && call.fail && !absent)) {
    return Failed(session->failure.scope, "region %lld does not run on the NPU: %s",
                  static_cast<long long>(call.region), session->failure.text);
  }
  ++session->on_cpu;
  return {};
}

char* Status() {
  Lock held_here;
  int count = 0;
  for (Session* session = sessions; session != nullptr; session = session->next) ++count;
  constexpr size_t kHead = 160, kRow = sizeof(Failure::text) + 128;
  size_t size = kHead + kRow * static_cast<size_t>(count), at = 0;
  char* text = static_cast<char*>(malloc(size));
  if (text == nullptr) return nullptr;
  const char* mode = kModes[static_cast<int>(settings.mode)];
  // No text in it has a character that JSON would want escaped.
  at += static_cast<size_t>(snprintf(text, size, "{\"mode\":\"%s\",\"device\":", mode));
  bool open = device.fd >= 0;
  at += static_cast<size_t>(snprintf(text + at, size - at, open ? "\"%s\"" : "null", device.path));
  at += static_cast<size_t>(snprintf(text + at, size - at, ",\"regions\":["));
  const char* comma = "";
  for (Session* session = sessions; session != nullptr; session = session->next) {
    at += static_cast<size_t>(snprintf(
        text + at, size - at, "%s{\"region\":%lld,\"npu\":%llu,\"cpu\":%llu,\"reason\":\"%s\"}",
        comma, static_cast<long long>(session->region),
        static_cast<unsigned long long>(session->on_npu),
        static_cast<unsigned long long>(session->on_cpu), session->failure.text));
    comma = ",";
  }
  snprintf(text + at, size - at, "]}");
  return text;
}

}  // namespace arm_ext
