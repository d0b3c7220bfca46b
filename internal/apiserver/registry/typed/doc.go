// Package typed builds a resourcedef.Kind from functions over the kind's own Go type: constructors,
// rules, table cells, and the checks that many kinds share.
//
// In: functions over *appsv1.Deployment and the like. Out: the untyped functions of
// resourcedef.Rules and resourcedef.Table, and field errors with upstream's texts (Errors,
// GoFields). To add a kind: a Rules literal in its group's directory (registry/apps, …), a case in
// the tests there, a line in its Kinds.
package typed
