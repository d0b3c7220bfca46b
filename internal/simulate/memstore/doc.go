// Package memstore holds the objects of an API server in memory, on a clock that its owner sets.
//
// In: what the registry's storages write. Out: the objects, and every change in order. Times and
// UIDs that the library takes from the machine (creation, deletion, transitions of conditions) are
// replaced by those of the clock and by counted ones, so that two runs write the same.
package memstore
