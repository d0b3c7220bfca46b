// Package trace is `gantry trace`: a Pod's life out of the journal, the revisions of an object, the
// way of a packet, and kubectl's writes with how the server took each of them.
package trace
