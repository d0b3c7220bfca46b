// Package network plays NetworkPolicies: one table of cases against knftables' fake, against the
// kernel with real sockets in network namespaces (root), and random policies that must neither
// panic nor be refused.
//
// In: cases_test.go, a small cluster and who may reach whom under which policies. To add a case: a
// row there.
package network
