// Package gather reads what the map of a cluster is made from: over the API server with the
// caller's rights, and from the health ports of scheduler, proxies and name server where they are
// reached from here. What could not be read is left out with its error; nothing is concluded here.
package gather
