// Package syncinformer is informers that are told of changes by their owner, in its goroutine.
//
// In: changes of a memstore.Store. Out: indexers and event handlers as client-go's shared informers
// have them, but nothing runs beside the caller: when Deliver returns, all handlers have returned.
package syncinformer
