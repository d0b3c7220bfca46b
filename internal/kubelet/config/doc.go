// Package config reads the KubeletConfiguration in layers (files, drop-ins, flags), validates it,
// sets its defaults, and reports fields that have no effect.
//
// The kubelet takes its settings from here. Layers, later ones win: the instance's own
// values, a preset, the file, the *.conf files of a directory in lexical order (merged as RFC 7386
// says, like upstream), flags; then v1.37's defaults.
//
// In: paths, flags, layers. Out: Loaded: the effective configuration, its feature gates, and the
// fields that are set but not effective yet.
//
// To make a field effective: wire it, and turn its row in fields.go to Works. To add a preset: a
// file in preset/.
package config
