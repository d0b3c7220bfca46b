// Package gather reads what an explanation is made from: the Pod or object, its journal, its
// events, what is around it in namespace and cluster, the logs of failed containers, images and
// sockets of nodes. Package explain decides from it; nothing is decided here.
//
// What the asker may not see, or what is not there (403, 404), is left out of what is gathered, and
// explain treats it as unknown. Every other failure to read, a timeout for one, ends the call with
// an error that names what could not be read: an explanation never changes because a read failed.
package gather
