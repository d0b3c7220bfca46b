package doctor

import (
	"fmt"
	"time"
)

// API is the API server's answer.
type API struct {
	URL     string
	Err     error
	Version string
	Took    time.Duration
	Date    time.Time // by the server's clock; zero: it sent none
	Here    time.Time // by this machine's clock at about that time
	Failing []FailingCheck
}

// FailingCheck is a failing check of /readyz.
type FailingCheck struct{ Name, Reason string }

// maxClockSkew is the difference from which clocks are reported: a new certificate or token is
// refused by a clock that is behind. Controllers evaluate Leases by their own clock only.
const maxClockSkew = 5 * time.Second

func apiServer(f Facts) []Finding {
	switch a := f.API; {
	case a == nil:
		return nil
	case a.Err != nil:
		return []Finding{{
			About: a.URL, Level: Problem, Text: fmt.Sprintf("does not answer: %v", a.Err),
			Fix: "start it (`gantry up`, `gantry server`), or name another kubeconfig with --kubeconfig; Pods that " +
				"run go on without it",
		}}
	case len(a.Failing) > 0:
		var out []Finding
		for _, c := range a.Failing {
			out = append(out, Finding{
				About: a.URL, Level: Problem, Text: fmt.Sprintf("is not ready: %s: %s", c.Name, c.Reason),
				Fix: "mend what the reason names; where it stays, restart the API server and look at its log",
			})
		}
		return out
	default:
		return []Finding{{About: a.URL, Text: fmt.Sprintf("Kubernetes %s answered in %s", a.Version,
			a.Took.Round(time.Millisecond))}}
	}
}

// clock compares the clocks, to a precision of one second.
func clock(f Facts) []Finding {
	a := f.API
	if a == nil || a.Err != nil || a.Date.IsZero() {
		return nil
	}
	off := a.Here.Sub(a.Date).Round(time.Second)
	if off.Abs() <= maxClockSkew {
		return []Finding{{Text: fmt.Sprintf("within %s of the API server's", maxClockSkew)}}
	}
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	return []Finding{{
		Level: Warning,
		Text: fmt.Sprintf("this machine's clock is %s %s the API server's: new certificates and tokens may be refused",
			off.Abs(), way),
		Fix: "let chrony or systemd-timesyncd set both clocks",
	}}
}
