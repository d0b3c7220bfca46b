// Package config reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) and lists the
// fields that are set but have no effect.
//
// In: a file. Out: Loaded with the configuration, rules.Settings per IP family, connection-tracking
// settings, and IgnoredFields.
//
// To support another field: use it in Loaded's methods or in app, and add its path to
// supportedFields in load.go.
package config
