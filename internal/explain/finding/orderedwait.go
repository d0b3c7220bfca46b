package finding

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// orderedWait finds a StatefulSet that makes its Pods one after the other, and whose Pods are not
// ready before one that is made later is there: its probes or init containers name that.
func orderedWait(_ *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*appsv1.StatefulSet)
	if !ok || s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return nil
	}
	first := int(firstOrdinal(s))
	later := regexp.MustCompile(`(?:^|[^a-z0-9-])` + regexp.QuoteMeta(s.Name) + `-(\d+)(?:[^a-z0-9-]|$)`)
	var out []Finding
	eachContainer(o, self, func(x place) []Finding {
		for _, asked := range waitedFor(x) {
			field := asked.field
			m := later.FindStringSubmatch(asked.text)
			if m == nil || len(out) > 0 {
				continue
			}
			i, err := strconv.Atoi(m[1])
			if err != nil || i <= first || i >= first+int(workload.Replicas(s.Spec.Replicas)) ||
				int(s.Status.ReadyReplicas) > i-first {
				continue
			}
			out = append(out, Finding{Code: "OrderedWait", Stage: StageChange, Object: self,
				Field: "spec.podManagementPolicy", Value: string(appsv1.OrderedReadyPodManagement),
				Want: string(appsv1.ParallelPodManagement), Numbers: map[string]string{"ordinal": m[1]},
				Message: fmt.Sprintf("Pod %s-%d waits for Pod %s-%d (%s), which StatefulSet %s makes only when "+
					"all before it "+
					"are ready (podManagementPolicy OrderedReady): neither ever is.", s.Name, first, s.Name, i,
					field, s.Name),
				Remedies: []Remedy{{Say: "make the StatefulSet anew with podManagementPolicy Parallel, and leave " +
					"its Pods",
					Run: []string{kubectl(self, "get", "-o json") + " | kubectl patch --local -f - --type=merge -p " +
						`'{"spec":{"podManagementPolicy":"Parallel"}}' -o json | kubectl replace --force ` +
						`--cascade=orphan -f -`}},
					{Say: "or let a Pod be ready without those after it: change what " + field + " asks"}}})
		}
		return nil
	})
	return out
}

// askedText is what a field of a container asks.
type askedText struct{ field, text string }

// waitedFor are the texts of a container that have to succeed before its Pod is ready, an init
// container's command first, then its startup and its readiness probe.
func waitedFor(x place) []askedText {
	var out []askedText
	if strings.Contains(x.at, ".initContainers[") {
		command := strings.Join(append(slices.Clone(x.c.Command), x.c.Args...), " ")
		out = append(out, askedText{x.at + ".command", command})
	}
	probe := func(field string, p *corev1.Probe) {
		at := x.at + "." + field
		switch {
		case p == nil:
		case p.Exec != nil:
			out = append(out, askedText{at + ".exec.command", strings.Join(p.Exec.Command, " ")})
		case p.HTTPGet != nil:
			out = append(out, askedText{at + ".httpGet.host", p.HTTPGet.Host})
		case p.TCPSocket != nil:
			out = append(out, askedText{at + ".tcpSocket.host", p.TCPSocket.Host})
		}
	}
	probe("startupProbe", x.c.StartupProbe)
	probe("readinessProbe", x.c.ReadinessProbe)
	return out
}
