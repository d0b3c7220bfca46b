// Package sharedwatch lets the watchers of one scope share one watch of the library.
//
// Watchers see a write at the revision it was given. The library's watch cache hands each event to
// every watcher by itself, through a goroutine and two channels with room for ten, and cuts off
// whoever has no room left. Here the watchers of one key and one pair of selectors are members of a
// group: its one watch of the cache fills a window of events, each member has a place in it and a
// channel that the group fills, many events at once. Who does not keep up is fed from the window by
// a goroutine of its own until it has caught up again; who falls out of the window, or whose
// group's watch does not come back, goes on with a watch of its own from where it is, opened anew
// as often as the cache cuts it off: who reads hears all. In: a storage and its watch cache. Out:
// the events that a watch of one's own would bring, in the same order and with the same bookmarks.
// A watcher that begins with the state of things is told it from a list and then joins. One that
// begins before what the group knows begins with a watch of its own and joins when that has reached
// the group; before its deadline it leaves for one again, whose last word is a bookmark. What the
// group knows is window, in window.go; who gets what and when is group.go.
package sharedwatch
