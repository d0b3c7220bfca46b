package doctor

import (
	"fmt"
	"time"
)

// ExecHop is one stretch of the way of kubectl exec, tried by itself: API server, kubelet, runtime
// with shim and process. The hops are in that order; each one that is tried skips those before it,
// so that the runtime is judged without the others (as crictl exec does).
type ExecHop struct {
	Name     string // what was asked
	Response string // protocol
	Took     time.Duration
	Err      error
	Fix      string
}

// execPath names the first hop that does not answer, seen from the container: what stands before it
// can do nothing.
func execPath(f Facts) []Finding {
	var out []Finding
	broken := ""
	for i := len(f.ExecHops) - 1; i >= 0; i-- {
		h := f.ExecHops[i]
		switch {
		case h.Err == nil:
			out = append(out,
				Finding{About: h.Name, Text: fmt.Sprintf("answered over %s in %s", h.Response,
					h.Took.Round(time.Millisecond))})
		case broken == "":
			broken = h.Name
			out = append(out,
				Finding{About: h.Name, Level: Problem, Text: fmt.Sprintf("is where exec ends: no answer over %s: %v",
					h.Response, h.Err), Fix: h.Fix})
		default:
			out = append(out,
				Finding{About: h.Name, Level: Warning, Text: fmt.Sprintf("no answer over %s: %v; look at %s first",
					h.Response, h.Err, broken)})
		}
	}
	return out
}
