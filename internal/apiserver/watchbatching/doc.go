// Package watchbatching sends the events of a watch in batches when many clients watch at once.
//
// Each flush of a watch response wakes several goroutines, closes an HTTP/2 frame and a TLS record,
// and is a system call; with a hundred watchers that is a large part of what a write costs. After a
// flush the watch handler therefore waits a few milliseconds at most (FlushDelay, a pure function
// of FlushStats), and sends what has come meanwhile in one piece. With few watchers, or on a
// machine whose processors are busy, it does not wait. Below TLS, Listener makes connections that
// join the writes of a burst into one system call.
//
// In: watch responses over the network, and accepted connections. Out: the same bytes in the same
// order, in fewer pieces. Files: watch_response.go counts and waits, delay.go decides,
// batching_conn.go joins writes. docs/adr/0010 has the reasons.
package watchbatching
