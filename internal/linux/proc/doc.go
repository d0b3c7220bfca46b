// Package proc reads properties and use of this machine from /proc and /sys: memory, processors,
// ids, kernel and distribution.
//
// App reads them once and passes the values on to kubelet/nodestatus and kubelet/server.
//
// In: a root directory ("/" except in tests). Out: a Machine value and a Usage sample.
package proc
