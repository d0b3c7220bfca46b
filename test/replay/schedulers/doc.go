// Package schedulers lets two schedulers schedule the same Pods in the same random clusters, in
// turns over one API server, and compares what they say: the node or the refusal word for word, the
// victims, the sizes of volumes that their own claims get, and each plugin's score for each node.
// Some Pods' bindings are refused by a policy.
//
// In: the program of another scheduler in GANTRY_OTHER (it is no part of this repository), how many
// clusters in GANTRY_CASES, the first seed in GANTRY_SEED. Out: a failure per Pod that is scheduled
// differently. GANTRY_RECORD keeps what the other did in clusters where both agree; TestAsRecorded
// compares ours with that, without the other program, and TestDecisionsAsRecorded the plugins and
// the search for victims alone, within a second.
package schedulers
