// Package dns asks the DNS server over a whole API server: records, upstreams, settings that
// change, and questions no client would ask.
package dns
