// SPDX-License-Identifier: Apache-2.0
// Connections whose client has not yet said who it is.
#ifndef ARM_EXT_NATIVE_WAITING_H_
#define ARM_EXT_NATIVE_WAITING_H_

#include <stddef.h>

namespace arm_ext {

// tvm/rpc/base.py
constexpr int kRpcMagic = 0xFF271;
constexpr int kMaxKey = 4096;

/*! \brief Seconds of a clock that nobody sets. */
double Now();

/*!
 * \brief Reads the greetings of all clients at once, so that one that is silent keeps nobody
 * waiting. Each has a few seconds; of too many the one that came first has to go.
 */
class WaitingClients {
 public:
  static constexpr int kNobody = -1;
  static constexpr int kOwnerGone = -2;

  /*! \brief To be called first. */
  void Listen(int listener) { listener_ = listener; }

  /*!
   * \brief Waits for a client that has greeted.
   * \param owner A descriptor that becomes readable when the process that started the server is
   * gone.
   * \param until When to return without one; 0 for never.
   * \param key Receives what the client said, with room for kMaxKey + 1.
   * \return The client, kNobody or kOwnerGone.
   */
  int Next(int owner, double until, char* key);

  /*! \brief Closes the listener and all clients, in a child that is to have none of them. */
  void Close();

 private:
  static constexpr int kMost = 64;
  static constexpr size_t kHeader = 2 * sizeof(int);

  struct Client {
    int fd;
    double deadline;
    size_t got;
    char bytes[kHeader + kMaxKey + 1];
  };
  enum class Greeting { kPart, kWhole, kWrong };

  static Greeting Read(Client* client);
  void Admit();
  void Remove(int index);

  int listener_ = 0;
  int count_ = 0;
  Client clients_[kMost] = {};  // in the order in which they came
};

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_WAITING_H_
