package pods

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/pod"
)

func table() resourcedef.Table {
	spec, status := v1.PodSpec{}.SwaggerDoc(), v1.PodStatus{}.SwaggerDoc()
	return resourcedef.Table{
		Columns: append([]metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("Ready", "The aggregate readiness state of this pod for accepting traffic."),
			printers.StringColumn("Status", "The aggregate status of the containers in this pod."),
			printers.StringColumn("Restarts",
				"The number of times the containers in this pod have been restarted and when the last container in "+
					"this pod has restarted."),
			printers.AgeColumn(),
		}, printers.WideColumns(
			printers.StringColumn("IP", status["podIP"]),
			printers.StringColumn("Node", spec["nodeName"]),
			printers.StringColumn("Nominated Node", status["nominatedNodeName"]),
			printers.StringColumn("Readiness Gates", spec["readinessGates"]),
		)...),
		Row:        func(o runtime.Object, opt resourcedef.RowOptions) []any { return Row(o.(*v1.Pod), opt.Now) },
		Conditions: func(o runtime.Object) []metav1.TableRowCondition { return RowConditions(o.(*v1.Pod)) },
	}
}

// Row is a Pod's line in `kubectl get pods -o wide`.
func Row(p *v1.Pod, now metav1.Time) []any {
	s := summarize(p)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, printers.TimestampUntil(now.Sub(s.lastRestart)))
	}
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, restarts,
		printers.TimestampSince(p.CreationTimestamp, now),
		printers.ValueOrNone(ip), printers.ValueOrNone(p.Spec.NodeName),
		printers.ValueOrNone(p.Status.NominatedNodeName), gatesCell(p),
	}
}

// RowConditions marks the rows of Pods that ended, so that clients may print them differently.
func RowConditions(p *v1.Pod) []metav1.TableRowCondition {
	switch p.Status.Phase {
	case v1.PodSucceeded:
		return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(v1.PodSucceeded), Message: "The pod has completed successfully."}}
	case v1.PodFailed:
		return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(v1.PodFailed), Message: "The pod failed."}}
	}
	return nil
}

func gatesCell(p *v1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	yes := 0
	for _, g := range p.Spec.ReadinessGates {
		if pod.IsConditionTrue(p, g.ConditionType) {
			yes++
		}
	}
	return fmt.Sprintf("%d/%d", yes, len(p.Spec.ReadinessGates))
}

// summary is what the line says about a Pod's containers.
type summary struct {
	ready, total, restarts int
	lastRestart            time.Time
	reason                 string
}

// summarize reads a Pod's status as a person would: one word for what it is doing or what is wrong.
func summarize(p *v1.Pod) summary {
	s := summary{total: len(p.Spec.Containers), reason: string(p.Status.Phase)}
	if p.Status.Reason != "" {
		s.reason = p.Status.Reason
	}
	if c := pod.Condition(p, v1.PodScheduled); c != nil && c.Reason == v1.PodReasonSchedulingGated {
		s.reason = v1.PodReasonSchedulingGated
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			sidecars[p.Spec.InitContainers[i].Name] = true
			s.total++
		}
	}
	sidecarRestarts, lastSidecar := 0, time.Time{}
	initializing := false
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.restarts += int(c.RestartCount)
		s.lastRestart = laterTime(s.lastRestart, c)
		if sidecars[c.Name] {
			sidecarRestarts += int(c.RestartCount)
			lastSidecar = laterTime(lastSidecar, c)
		}
		if initDone(c, sidecars[c.Name], &s) {
			continue
		}
		s.reason, initializing = initReason(c, i, len(p.Spec.InitContainers)), true
		break
	}
	if !initializing || pod.IsConditionTrue(p, v1.PodInitialized) {
		s.restarts, s.lastRestart = sidecarRestarts, lastSidecar
		summarizeContainers(p, &s)
	}
	if p.DeletionTimestamp != nil {
		switch {
		case p.Status.Reason == "NodeLost":
			s.reason = "Unknown"
		case !pod.IsTerminal(p):
			s.reason = "Terminating"
		}
	}
	return s
}

// initDone says whether an init container is behind us, and counts a ready sidecar.
func initDone(c *v1.ContainerStatus, sidecar bool, s *summary) bool {
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		return true
	case sidecar && c.Started != nil && *c.Started:
		if c.Ready {
			s.ready++
		}
		return true
	}
	return false
}

func initReason(c *v1.ContainerStatus, i, n int) string {
	switch {
	case c.State.Terminated != nil:
		return "Init:" + endReason(c.State.Terminated)
	case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
		return "Init:" + c.State.Waiting.Reason
	}
	return fmt.Sprintf("Init:%d/%d", i, n)
}

func endReason(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func summarizeContainers(p *v1.Pod, s *summary) {
	running, failed := false, false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts += int(c.RestartCount)
		s.lastRestart = laterTime(s.lastRestart, c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil && failed && c.State.Terminated.Reason == "Completed":
			// one that ended well does not hide one that failed
		case c.State.Terminated != nil:
			s.reason = endReason(c.State.Terminated)
			failed = failed || c.State.Terminated.ExitCode != 0
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	// One container ended well while another runs: say what the Pod is, not what the one did.
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if pod.IsConditionTrue(p, v1.PodReady) {
			s.reason = "Running"
		}
	}
}

// laterTime is the later of t and the end of the container's last run.
func laterTime(t time.Time, c *v1.ContainerStatus) time.Time {
	if end := c.LastTerminationState.Terminated; end != nil && t.Before(end.FinishedAt.Time) {
		return end.FinishedAt.Time
	}
	return t
}
