// SPDX-License-Identifier: Apache-2.0
// Connections whose client has not yet said who it is, or has not yet asked for anything.
#ifndef ARM_EXT_NATIVE_WAITING_H_
#define ARM_EXT_NATIVE_WAITING_H_

#include <stddef.h>

namespace arm_ext {

// tvm/rpc/base.py
constexpr int kRpcMagic = 0xFF271;
constexpr int kMaxKey = 4096;

/*! \brief Seconds of a clock that nobody sets. */
double Now();

/*! \brief A client that WaitingClients::Next returns. */
struct ReadyClient {
  int fd;
  /*! \brief Whether its greeting was answered, and it has sent its first request. */
  bool asks;
  /*! \brief What WaitingClients::Await was given for it. */
  double timeout_s;
  /*! \brief What it said, unless it asks. */
  char key[kMaxKey + 1];
};

/*!
 * \brief Waits for the greetings and the first requests of all clients at once, so that one that is
 * silent keeps nobody waiting. Each has a few seconds for either; of too many the one that came
 * first has to go.
 */
class WaitingClients {
 public:
  static constexpr int kNobody = -1;
  static constexpr int kOwnerGone = -2;

  /*! \brief To be called first. */
  void Listen(int listener) { listener_ = listener; }

  /*!
   * \brief Waits for a client that has greeted, or that has sent its first request.
   * \param owner A descriptor that becomes readable when the process that started the server is
   * gone.
   * \param until When to return without one; 0 for never.
   * \param ready Receives the client.
   * \return The client's descriptor, kNobody or kOwnerGone.
   */
  int Next(int owner, double until, ReadyClient* ready);

  /*! \brief Waits for the first request of a client whose greeting was answered, too. */
  void Await(int fd, double timeout_s);

  /*! \brief Closes the listener and all clients, in a child that is to have none of them. */
  void Close();

 private:
  static constexpr int kMost = 64;
  static constexpr size_t kHeader = 2 * sizeof(int);

  struct Client {
    int fd;
    double deadline;
    bool answered;
    double timeout_s;
    size_t got;
    char bytes[kHeader + kMaxKey + 1];
  };
  enum class Greeting { kPart, kWhole, kWrong };

  static Greeting Read(Client* client);
  static Greeting Request(int fd);
  void Add(int fd, bool answered, double timeout_s);
  void Remove(int index);

  int listener_ = 0;
  int count_ = 0;
  Client clients_[kMost] = {};  // in the order in which they came
};

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_WAITING_H_
