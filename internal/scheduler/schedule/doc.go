// Package schedule runs the Filter and Score plugins over a snapshot for one Pod and returns a
// Result: the suggested host, the runner-up, and for each other node the first refusal with its
// reason and numbers.
//
//	in := schedule.Input{Pod: p, Snapshot: snap, Plugins: plugins}
//	result := schedule.SchedulePod(ctx, in)
//	in.Snapshot = snap.Without("node-3")
//	refusals := schedule.SchedulePod(ctx, in).Refusals(100)
//
// In: a Pod, a snapshot (live, recorded or edited), the PluginSet of a profile. Optional: a cycle
// state, nominated Pods, a parallel runner, a sample of nodes, a tie breaker, a timer.
// Out: *Result, which prints upstream's FailedScheduling text (Message), names the plugins whose
// events may make the Pod schedulable (UnschedulablePlugins), and becomes a journal fact (Fact).
//
// Pure: equal input gives an equal Result, whatever the runner, with and without an
// EquivalenceCache. schedulepod.go draws the ways through it. A plugin explains its refusals with
// numbers by implementing Explainer. To add a plugin: a directory below plugins and a row in
// plugins.InTree; nothing changes here.
package schedule
