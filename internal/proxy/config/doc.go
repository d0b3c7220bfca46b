// Package config reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) as far as it has
// an effect here, and names what has none.
//
// What the proxy is to be like. In: a file. Out: Loaded: the configuration, rules.Settings, the
// fields that are set but have no effect.
//
// To make a field effective: use it in Loaded's methods or in app, and add its path to effective in
// load.go.
package config
