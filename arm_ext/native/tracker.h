// SPDX-License-Identifier: Apache-2.0
// Registration at TVM's RPC tracker, which hands the server out under a key.
#ifndef ARM_EXT_NATIVE_TRACKER_H_
#define ARM_EXT_NATIVE_TRACKER_H_

namespace arm_ext {

/*! \brief A server's side of the tracker's protocol; every call reconnects if the tracker was gone.
 */
class Tracker {
 public:
  /*!
   * \param address "host:port" of the tracker.
   * \param key The kind of board, as clients ask for it.
   * \param port The server's own port.
   */
  Tracker(const char* address, const char* key, int port)
      : address_(address), key_(key), port_(port) {}

  /*! \brief Offers the server to the next client, under a fresh match key. */
  void Offer();

  /*! \brief To be called every two seconds while no client comes: renews an offer that was taken
   * and not used. */
  void Ping();

  /*! \brief Closes the connection, in a child that is to have none. */
  void Drop();

  /*! \brief What the client's key must be. */
  const char* match_key() const { return match_key_; }

 private:
  bool Connect();
  bool Request(const char* message, bool* offered);

  const char* address_;
  const char* key_;
  int port_;
  int fd_ = -1;
  int unmatched_pings_ = 0;
  unsigned offers_ = 0;
  char match_key_[256] = "";
};

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_TRACKER_H_
