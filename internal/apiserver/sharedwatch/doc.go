// Package sharedwatch lets watchers of the same objects share one watch of the watch cache.
//
// The library's cacher delivers each event to every watcher separately, through a goroutine and two
// channels of ten events, and terminates a watcher whose channel is full. Here, watchers with the
// same key, namespace and selectors form a watchGroup. The group reads one watch of the cache into
// a window of recent events (event_window.go) and sends them to the channels of its watchers in
// batches. A watcher that does not keep up is fed from the window by a goroutine of its own
// (catchUp) until it has caught up. A watcher that falls out of the window, or whose group loses
// its watch, continues with a watch of its own at the revision it has reached; that watch is
// reopened when the cache terminates it. No event is lost or repeated.
//
// In: a storage.Interface and its watch cache. Out: the events, in the order and with the
// bookmarks, that a watch of the cache would deliver. A watch from resourceVersion "" or "0", or
// with sendInitialEvents, gets its initial state from a list and then joins a group. A watch from a
// revision before the group's window starts with a watch of its own and joins when that has caught
// up. Shortly before its deadline each watcher goes back to a watch of its own, which ends with the
// library's last bookmark. The states of a watcher are drawn at the type watcher.
package sharedwatch
