// Package rbac is the RBAC authorizer, and the rules against escalation of privileges by Roles and
// bindings.
//
// A request is allowed when one rule of one role bound to the user covers it; there is no deny. In:
// roles and bindings (the PolicyReader interface), a user, a request. Out: an authorizer decision,
// a user's rules, or the rules a grant lacks. To add a kind of subject: applies in subjects.go.
package rbac
