// Package typed builds rows of served kinds from typed parts: constructors, rules, cells, and the
// checks that many kinds share.
//
// A group's directory (registry/apps, registry/batch, …) says what differs; resourcedef.Kind is
// what comes out. In: functions over one kind's own Go type. Out: the untyped functions of
// resourcedef.Rules and resourcedef.Table, and lists of findings with upstream's texts. To add a
// kind: a Rules literal in the group's directory, a case in its tests, a line in its Kinds.
package typed
