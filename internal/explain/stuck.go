package explain

import (
	"fmt"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// pendingKubeletStep returns the step that the kubelet reported as stuck and that has not returned;
// a later plan or admission shows that it has.
func pendingKubeletStep(in In) (journal.Stuck, bool) {
	back := map[string]bool{}
	for i := len(in.Entries) - 1; i >= 0; i-- {
		switch f := in.Entries[i].Fact.(type) {
		case journal.Unstuck:
			back[f.Path+f.Step] = true
		case journal.Planned, journal.Accepted:
			return journal.Stuck{}, false
		case journal.Stuck:
			if !back[f.Path+f.Step] {
				return f, true
			}
		}
	}
	return journal.Stuck{}, false
}

// kubeletBlocked explains a Pod whose kubelet waits for a call that does not return.
func kubeletBlocked(in In) *Answer {
	f, yes := pendingKubeletStep(in)
	if !yes || in.Pod == nil {
		return nil
	}
	a := &Answer{
		State: "Stuck", Since: f.Since,
		Cause: fmt.Sprintf("The kubelet of node %s is stuck with this Pod in %s: %s has not come back since %s, %s "+
			"ago.", in.Pod.Spec.NodeName, f.Path, f.Step, f.Since.UTC().Format(time.RFC3339), ago(in.Now.Sub(f.Since))),
		Facts: []string{"other Pods of the node are not held up by it"},
		Next: "a call to the runtime is given up after runtimeRequestTimeout (2m unless configured; twice that for a " +
			"sandbox) and tried again",
		Fixes: []Fix{
			commandFix("see what the runtime does with the Pod", fmt.Sprintf("gantry trace pod/%s -n %s", in.Ref.Name,
				in.Ref.Namespace)),
			commandFix("look for processes of the Pod that the kernel holds (state D: a device or a file server does " +
				"not answer), and read the runtime's log"),
		},
	}
	if w, _, ok := newest[journal.Waiting](in,
		func(w journal.Waiting) bool { return !w.Since.Before(f.Since) && w.Fix != "" }); ok {
		a.Cause += fmt.Sprintf(" It waits for %s.", w.For)
		a.Next, a.Fixes = w.Next, append(textFixes(w.Fix), a.Fixes[0])
	}
	if in.Pod.DeletionTimestamp != nil {
		a.State = "Terminating"
		a.Fixes = append(a.Fixes, forceDelete(in))
	}
	return a
}
