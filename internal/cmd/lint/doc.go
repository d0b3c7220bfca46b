// Package lint is `gantry lint`: it reads Pods and Pod templates from files or the cluster, has
// internal/probelint check them and prints what it found. --fail-on says which findings make the
// exit code 1.
package lint
