// Package queue is the scheduling queue and the nominator: which Pod is scheduled next, which
// cluster events move which other Pods back to the active queue, and which node each nominated Pod
// waits for.
//
// Queue draws the stages of a Pod. A Pod taken by Pop is in flight: events that happen meanwhile
// are kept and looked at when it comes back.
//
// In: Pods, cluster events, the time. Out: the next Entry, and Moves that say which Pod came to
// which stage, by which event and which plugin's hint. Pure: no lock, no clock; the scheduler's
// lock guards it and its one timer waits until NextFlush. To have an event move Pods: the plugin's
// EventsToRegister; nothing changes here.
package queue
