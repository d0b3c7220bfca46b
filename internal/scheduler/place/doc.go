// Package place asks every plugin about every node and gives a Ruling: the winner, the runner-up, and for each other node the first no with its reason and numbers.
//
// Chapter 3, judged. One is the whole of it:
//
//	ruling := place.One(ctx, place.In{Pod: p, World: snapshot, Judges: judges})
//	why    := place.One(ctx, place.In{Pod: p, World: snapshot.Without("node-3"), Judges: judges}).Refusals(100)
//
// In: a Pod, a snapshot (live, recorded or edited), the Judges of a profile (NewJudges from any framework plugins). Optional: a cycle state, Pods nominated to
// nodes, a parallel runner, a sample, a tie breaker, a stop watch. Out: *Ruling, which prints upstream's FailedScheduling text (Message), names
// plugins whose events would wake the Pod (Rejectors), and becomes a journal fact (Fact).
//
// With a Memory, kept from ruling to ruling, Pods of equal shape share verdicts: judges that are Local (their Shape says what of the Pod they read) are asked again
// only about nodes that changed, from columns where they are Indexed; judges with sums over all nodes keep them (Tallying). Nodes of which all of these say the same are
// a group (partition.go), and a ruling is made by groups: the best is found among each group's best. The others are asked node by node on the nodes that are left. The
// ruling is the same as without, which Differences checks.
//
// Pure: equal input gives an equal ruling, whatever the runner. A judge explains itself with numbers by implementing Explainer.
// To add a judge: a directory under plugins and a row in plugins.All; nothing changes here.
package place
