package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// MayLoseProcesses reports whether a Pod runs with a limit of memory, so that the kernel may have
// killed processes of containers that run on: neither status nor events tell of those.
func MayLoseProcesses(p *corev1.Pod) bool {
	if p == nil || p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(containers(p), func(c container) bool { return runsLimited(p, c) })
}

func runsLimited(p *corev1.Pod, c container) bool {
	limited := memoryLimit(c.spec) > 0
	if r := p.Spec.Resources; r != nil {
		_, pod := r.Limits[corev1.ResourceMemory]
		limited = limited || pod
	}
	return limited && c.status != nil && c.status.State.Running != nil
}

// killedProcesses are running containers of which the kernel has killed processes for want of
// memory while the first one lived on.
func killedProcesses(in In) []finding.Finding {
	var out []finding.Finding
	for _, c := range containers(in.Pod) {
		n := in.Kills[c.spec.Name]
		if n == 0 || !runsLimited(in.Pod, c) {
			continue
		}
		at := pathOf(in.Pod, c)
		f := finding.Finding{Code: "ProcessOutOfMemory", Severity: finding.Threat, Stage: finding.StageRun,
			Object: in.object(), Field: at + ".resources.limits.memory",
			Value:   c.spec.Resources.Limits.Memory().String(),
			Numbers: map[string]string{"kills": strconv.FormatUint(n, 10)}}
		m := memoryState{oomKilled: true, child: true, limit: memoryLimit(c.spec), ofPod: podMemoryLimit(in.Pod)}
		if m.limit == 0 {
			f.Field, f.Value = "spec.resources.limits.memory", in.Pod.Spec.Resources.Limits.Memory().String()
		}
		f.Numbers["limit"] = f.Value
		processes := "a process"
		if n > 1 {
			processes = fmt.Sprintf("%d processes", n)
		}
		f.Message = fmt.Sprintf("%s runs, and since it started the kernel has killed %s in it for want of memory "+
			"(limit %s%s): its first process lives on, and what was killed did not do its work (%s). Neither the "+
			"Pod's status nor its events tell of it.", c.title(), processes, f.Value, memoryVolumesText(in, c),
			killedChild(c.spec))
		f.Remedies = asRemedies(memoryFixes(in, c, m))
		out = append(out, f)
	}
	return out
}

// KillsOf reads, from a kubelet's metrics in text form (container_oom_events_total), how many
// processes of each container of a Pod the kernel has killed for want of memory.
func KillsOf(metrics, namespace, pod string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(metrics) {
		rest, found := strings.CutPrefix(line, "container_oom_events_total{")
		labels, value, ended := strings.Cut(rest, "} ")
		if !found || !ended || label(labels, "namespace") != namespace || label(labels, "pod") != pod {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ") // a time may follow
		n, err := strconv.ParseFloat(number, 64)
		if name := label(labels, "container"); err == nil && name != "" && n > 0 {
			out[name] += uint64(n)
		}
	}
	return out
}

// label is the value of a label in the text form of metrics; names of Pods, namespaces and
// containers hold no characters that are escaped.
func label(labels, name string) string {
	_, rest, found := strings.Cut(","+labels, ","+name+`="`)
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
