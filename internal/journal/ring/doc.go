// Package ring keeps the journal: the newest entries in a fixed number of bytes, in memory and,
// when given a folder, on disk.
//
// Sink; trace, explain and the journal API read from here. In: facts (Put) and entries of other
// processes (Append). Out: entries (Read). A writer goroutine encodes and stores, so Put costs an
// append under a lock. What is on disk is in the page cache when Put's batch is written: it
// survives a killed process, and the newest second may be lost with the machine. Damaged lines are
// skipped and counted.
package ring
