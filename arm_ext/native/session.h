// SPDX-License-Identifier: Apache-2.0
// One client's session: a process of its own in a folder of its own.
#ifndef ARM_EXT_NATIVE_SESSION_H_
#define ARM_EXT_NATIVE_SESSION_H_

#include "tracker.h"
#include "waiting.h"

namespace arm_ext {

/*!
 * \brief Serves one client until it leaves, its time is up, its code dies or our owner is gone.
 *
 * A session that dies takes neither the server nor its folder with it; the client is told why.
 *
 * \param client The connected socket, after the handshake; closed on return.
 * \param timeout_s Seconds the session may last; 0 for no limit.
 * \param work The folder in which the session's own is made, and removed again.
 * \param owner A descriptor that becomes readable when the process that started the server is gone.
 * \param waiting Clients that the session must not get hold of.
 * \param tracker The tracker, nullptr without, to which the session must not talk.
 */
void RunSession(int client, double timeout_s, const char* work, int owner, WaitingClients* waiting,
                Tracker* tracker);

/*! \brief Removes a folder and all in it. */
void RemoveTree(const char* folder);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_SESSION_H_
