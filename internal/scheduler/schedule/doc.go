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
// state, nominated Pods, a parallel runner, a sample of nodes, a tie breaker, a timer. Out:
// *Result, which prints upstream's FailedScheduling text (Message), names the plugins whose events
// may make the Pod schedulable (Rejectors), and becomes a journal fact (Fact).
//
// With an EquivalenceCache Pods of equal shape share results. NodeLocal plugins run again only on
// nodes that changed, from columns where they are a ColumnPlugin; an AggregatingPlugin keeps its
// sums over all nodes. Nodes that look the same to all of these form a group, and only the best of
// each group is compared. Other plugins run node by node. Differences checks that the result equals
// the one without the cache.
//
// Pure: equal input gives an equal result, whatever the runner. A plugin explains its refusals with
// numbers by implementing Explainer. To add a plugin: a directory below plugins and a row in
// plugins.All; nothing changes here.
package schedule
