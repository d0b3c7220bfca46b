// Package watchbatching sends what a server writes to watches in fewer, larger pieces.
//
// Each event of each watcher is an HTTP/2 frame, a TLS record and a system call. A watch handler's
// writes are buffered until it flushes (Batcher), and Listener makes connections that join the
// writes of a burst, such as one event for several watchers of a connection, into one system call.
// Nothing is delayed: a write to an idle connection is sent at once.
//
// In: watch responses over the network, and accepted connections. Out: the same bytes in the same
// order. docs/adr/0021 says why handlers do not wait after a flush.
package watchbatching
