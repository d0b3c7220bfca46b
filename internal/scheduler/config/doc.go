// Package config reads KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): strict decoding, upstream's defaults, validation with field paths, and
// the plugins that each profile ends up with at each extension point.
//
// Chapter 2, waiting. In: bytes of a file, or nothing for the default. Out: a completed configuration, or an error that names every bad field.
// One default differs from upstream: without percentageOfNodesToScore every node is scored; 0 asks for upstream's adaptive sample.
package config
