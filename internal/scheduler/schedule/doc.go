// Package schedule asks every plugin about every node and gives a Result: the winner, the runner-up, and for each other node the first no with its reason and numbers.
//
// Chapter 3, judged. SchedulePod is the whole of it:
//
//	ruling := schedule.SchedulePod(ctx, schedule.Input{Pod: p, World: snapshot, PluginSet: judges})
//	why    := schedule.SchedulePod(ctx, schedule.Input{Pod: p, World: snapshot.Without("node-3"), PluginSet: judges}).Refusals(100)
//
// Input: a Pod, a snapshot (live, recorded or edited), the PluginSet of a profile (NewPluginSet from any framework plugins). Optional: a cycle state, Pods nominated to
// nodes, a parallel runner, a sample, a tie breaker, a stop watch. Out: *Result, which prints upstream's FailedScheduling text (Message), names
// plugins whose events would wake the Pod (Rejectors), and becomes a journal fact (Fact).
//
// With a EquivalenceCache, kept from ruling to ruling, Pods of equal shape share verdicts: judges that are NodeLocal (their Shape says what of the Pod they read) are asked again
// only about nodes that changed, from columns where they are ColumnPlugin; judges with sums over all nodes keep them (AggregatingPlugin). Nodes of which all of these say the same are
// a group (partition.go), and a ruling is made by groups: the best is found among each group's best. The others are asked node by node on the nodes that are left. The
// ruling is the same as without, which Differences checks.
//
// Pure: equal input gives an equal ruling, whatever the runner. A judge explains itself with numbers by implementing Explainer.
// To add a judge: a directory under plugins and a row in plugins.All; nothing changes here.
package schedule
