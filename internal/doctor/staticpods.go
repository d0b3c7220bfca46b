package doctor

import (
	"fmt"
	"time"
)

// UnmirroredPod is a static Pod of a node that the API server does not show.
type UnmirroredPod struct {
	Namespace, Name string
	Seen            time.Time // when the kubelet read its manifest
	// TakenBy is the uid of another Pod with its name; empty: there is none of that name
	TakenBy string
}

// mirrorTime is how long the mirror of a static Pod may take.
const mirrorTime = time.Minute

// staticPods names the static Pods that run without the API server's knowledge.
func staticPods(f Facts) []Finding {
	var out []Finding
	known := false
	for _, n := range f.Nodes {
		known = known || n.Unmirrored != nil
		for _, p := range n.Unmirrored {
			if f.Now.Sub(p.Seen) < mirrorTime {
				continue
			}
			finding := Finding{About: n.Name, Level: Warning, Text: fmt.Sprintf("static Pod %s/%s runs since %s, and "+
				"the API server does not have its mirror: kubectl does not see it", p.Namespace, p.Name,
				p.Seen.UTC().Format(time.DateTime)),
				Fix: "the kubelet's log says why (\"Cannot keep the mirror of a static Pod true\"): an admission " +
					"webhook, policy, quota or security level that refuses it, or a namespace that is missing"}
			if p.TakenBy != "" {
				finding.Text += fmt.Sprintf("; another Pod has its name (uid %s)", p.TakenBy)
				finding.Fix = fmt.Sprintf("`kubectl -n %s delete pod %s`, or another name in the manifest", p.Namespace,
					p.Name)
			}
			out = append(out, finding)
		}
	}
	if out == nil && known {
		out = []Finding{{Text: "the API server shows every static Pod"}}
	}
	return out
}
