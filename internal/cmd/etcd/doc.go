// Package etcd is `gantry etcd`: snapshots, restoring, compaction, defragmentation and version
// upgrades of an instance's store, embedded or external.
package etcd
