// Package rbac serves Roles, ClusterRoles and their bindings, and refuses escalation of privileges
// by writing them.
//
// In: roles and bindings as written. Out: rows of kinds; PolicyBased's wrappers, which check who
// may hand out what. To add a rule about a role: validate.go.
package rbac
