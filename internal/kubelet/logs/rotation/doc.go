// Package rotation bounds what containers' logs take, and puts names to them where log collectors
// look.
//
// In plan.go is what is decided over the file names of one container (pure); the Manager looks
// every few seconds at the sizes of running containers' logs, renames what is too big, has the
// runtime reopen it, compresses older parts, removes the logs of containers that kubectl logs
// cannot reach any more, and keeps the links of /var/log/containers. In: the node's Pods with their
// status, a Policy. Out: files. A log of the usual size costs one stat per round and no call to the
// runtime.
package rotation
