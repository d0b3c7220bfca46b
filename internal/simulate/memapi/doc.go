// Package memapi is an API server without a network, whose objects are in a memstore: the
// registry's storages and the admission plugins of the real one, called in the caller's goroutine.
//
// In: requests of client-go. Out: answers, and writes to the store. There is no authentication, no
// authorization, no watch and no server-side apply: the one who simulates may do everything, and
// caches are filled by syncinformer.
package memapi
