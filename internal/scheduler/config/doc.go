// Package config reads KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): strict
// decoding, upstream's defaults, validation with field paths, and the plugins that each profile
// ends up with at each extension point.
//
// In: bytes of a file, or nothing for the default. Out: a completed configuration, or an error that
// names every bad field. Two things differ from upstream: profiles may name different queue sort
// plugins, and without clientConnection.qps the client is not throttled.
package config
