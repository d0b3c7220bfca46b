// Package plugins lists the built-in plugins, one row each, in the order of the default profile.
//
// In: nothing. Out: InTree: name, default weight, factory, and how its arguments are made,
// defaulted and validated. Plugins that act (DefaultBinder, DefaultPreemption) have their row here
// and their factory in scheduler/bind.
//
// To add a plugin: a directory here, a row in InTree, a table of statuses as test.
package plugins
