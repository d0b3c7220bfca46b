// Package gather reads what an explanation is made from: the Pod or object, its journal, its
// events, what is around it in namespace and cluster, the logs of failed containers, images and
// sockets of nodes. Package explain decides from it; nothing is decided here.
//
// What the caller may not see, or what is not there (403, 404), is left out of what is gathered,
// and explain treats it as unknown. What could not be read for any other reason, a timeout for one,
// is named with its error in Answer.Unread, so that nobody takes an answer for whole that is not.
// Logs, a node's images and its sockets are extras: without them an answer only says less.
package gather
