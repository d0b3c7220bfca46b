// Package nodes serves the Node: defaults, validation, columns, and the proxy subresource.
//
// Chapter 1, written. In: decoded Nodes and how to reach kubelets. Out: a row for apiserver.Kinds.
package nodes
