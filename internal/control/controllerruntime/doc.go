// Package controllerruntime is what every controller runs on: a queue of keys, workers, retries
// with back-off, and the parts a controller is made from.
//
// A controller declares what it watches and hands over one function from a key to the next look;
// loop calls it whenever the key may have changed, never twice at once for one key, and again after
// a failure.
package controllerruntime
