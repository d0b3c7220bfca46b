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
// Pure: equal input gives an equal ruling, whatever the runner. A judge explains itself with numbers by implementing Explainer.
// To add a judge: a directory under plugins and a row in plugins.All; nothing changes here.
package place
