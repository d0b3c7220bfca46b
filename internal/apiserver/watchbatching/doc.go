// Package watchbatching lets the events of a watch leave together when many watch at once.
//
// Watchers see a write at the revision it was given. Each flush of a watcher's answer wakes several
// goroutines, closes an HTTP/2 frame and a TLS record, and is a system call; before many watchers
// that is most of what a write costs. After a flush a watcher's handler therefore rests, a few
// milliseconds at most, and sends what came meanwhile at once. Who watches alone, or hears little,
// never waits. Beneath, what is written to a connection in a burst is gathered and leaves in one
// system call. In: the answers of watches over the network, and connections. Out: the same bytes in
// the same order, in fewer pieces. How long to rest is FlushDelay, a function of figures; watch.go
// takes them and waits; conn.go gathers.
package watchbatching
