// Package version is `gantry version`: this build's revision and the Kubernetes API level.
package version
