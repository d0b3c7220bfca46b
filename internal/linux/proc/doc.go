// Package proc reads what the kernel and the system say of this machine: memory, processors, ids,
// kernel and distribution.
//
// App reads it once and passes the values on to kubelet/nodestatus and kubelet/serve.
//
// In: a root directory ("/" but in tests). Out: a Machine value and a Usage sample.
package proc
