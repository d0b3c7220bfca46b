// Package controllerruntime is what every controller runs on: a queue of keys with workers and
// retries, and parts such as expectations, Pod control and claiming.
//
// In: a ControllerContext, informers to watch, and a SyncHandler. Out: calls of the SyncHandler for
// each key that may have changed, never twice at once for one key, and again with back-off after an
// error.
package controllerruntime
