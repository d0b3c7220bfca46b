// Package gather looks at what the doctor checks: this machine, its container runtime, the
// certificates of an instance, the API server, the scheduler, every node, and each hop of kubectl
// exec. Package doctor decides what is wrong; nothing is decided here.
//
// Each method of Gatherer returns one of doctor's facts. A fact is nil where it cannot be seen from
// here; a read that failed is an error inside the fact. No answer is waited for longer than
// Timeout.
package gather
