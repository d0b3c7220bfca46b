// Package apiwriter makes small writes to the API server, many at once over one connection, at a
// tenth of the processor time of an ordinary request.
//
// Each Pod costs a scheduler two writes, the binding and its event, and each victim of preemption
// three; with an ordinary client these cost more than everything else together. Here requests of
// many goroutines leave in one write to the socket, and one reader hands out the answers; calls
// made while it does so, and calls of Queue, leave together. It speaks HTTP/2 (RFC 9113) with
// x/net's framer, for requests of one frame.
//
// In: a client configuration (New), methods, paths and bodies. Out: status codes and bodies of
// answers, in any order. What it is not made for (proxies, exec plugins, throttles, transports of
// somebody's own, HTTP/1) it leaves to the ordinary client: New gives nil, or a call ends with
// ErrNotSent, after which the caller may write in the ordinary way.
package apiwriter
