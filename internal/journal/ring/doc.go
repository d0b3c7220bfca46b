// Package ring stores the journal: the newest entries within a number of bytes, in memory and,
// given a directory, on disk.
//
// In: facts (Put) and entries of other processes (Append). Out: entries (Read), for trace, explain
// and the journal API. A writer goroutine encodes and stores, so Put costs an append under a lock.
// Written lines are in the page cache: they survive a killed process, but the newest second may be
// lost with the machine. Damaged lines are skipped and counted.
package ring
