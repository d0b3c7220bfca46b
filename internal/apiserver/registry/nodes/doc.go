// Package nodes serves the Node: defaults, validation, columns, and the proxy subresource.
//
// In: decoded Nodes and how to reach kubelets. Out: a row for apiserver.Kinds.
package nodes
