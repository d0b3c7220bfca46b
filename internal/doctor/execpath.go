package doctor

import (
	"fmt"
	"time"
)

// ExecHop is one hop of kubectl exec, tested on its own: API server, kubelet, runtime with shim and
// process. They are in that order; each test bypasses the earlier hops, as crictl exec does for the
// runtime.
type ExecHop struct {
	Name     string // what was requested
	Response string // protocol
	Took     time.Duration
	Err      error
	Fix      string
}

// execPath names the failing hop that is closest to the container: hops before it depend on it.
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
