package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// Drivers are the CSI drivers that a kubelet knows, and their calls that are not answered yet.
type Drivers struct {
	Registered []string
	Calls      []DriverCall
}

// DriverCall is a call that a driver has not answered yet.
type DriverCall struct {
	Driver, Method string
	Since          time.Time
}

// slowCall is how long a driver may take before a Pod is said to wait for it.
const slowCall = 5 * time.Second

// DriversOf are the CSI drivers of a Pod's volumes: inline, and of the volumes that its claims are
// bound to.
func DriversOf(p *corev1.Pod, objects *finding.Cluster) []string {
	var out []string
	for i := range p.Spec.Volumes {
		name := ""
		switch v := &p.Spec.Volumes[i]; {
		case v.CSI != nil:
			name = v.CSI.Driver
		case v.PersistentVolumeClaim != nil:
			name = objects.DriverOf(p.Namespace, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			name = objects.DriverOf(p.Namespace, p.Name+"-"+v.Name)
		}
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// driverFindings are drivers that a Pod waits for: silent ones, and those that its kubelet does not
// know.
func driverFindings(in In) []finding.Finding {
	if in.Pod == nil || in.Drivers == nil || in.Pod.Spec.NodeName == "" ||
		!notStarted(in.Pod) && in.Pod.DeletionTimestamp == nil {
		return nil
	}
	var out []finding.Finding
	node := finding.Object{Kind: "Node", Name: in.Pod.Spec.NodeName}
	for _, name := range DriversOf(in.Pod, in.Objects) {
		f := finding.Finding{Stage: finding.StageVolume, Object: finding.Object{Kind: "CSIDriver", Name: name},
			Related: []finding.Object{node, in.object()}}
		if !slices.Contains(in.Drivers.Registered, name) {
			f.Code, f.Field, f.Value = "DriverNotRegistered", "metadata.name", name
			f.Message = fmt.Sprintf("CSI driver %s is not registered with the kubelet of node %s: its node plugin "+
				"does not run there, or its registrar does not.", name, node.Name)
			if near, how := finding.Near(name, in.Drivers.Registered); near != "" {
				f.Want = near
				f.Message += fmt.Sprintf(" There is %s; %s.", near, how)
			}
			f.Remedies = driverRemedies(in, name)
			out = append(out, f)
			continue
		}
		for _, c := range in.Drivers.Calls {
			age := in.Now.Sub(c.Since)
			if c.Driver != name || age < slowCall || strings.HasSuffix(c.Method, "Health") { // nobody waits for those
				continue
			}
			f.Code, f.Field, f.Value = "DriverSilent", "metadata.name", name
			f.Numbers = map[string]string{"call": c.Method, "age": age.Round(time.Second).String(),
				"ageSeconds": strconv.Itoa(int(age.Seconds()))}
			f.Message = fmt.Sprintf("CSI driver %s has not answered %s on node %s for %s.", name, c.Method, node.Name,
				ago(age))
			f.Remedies = driverRemedies(in, name)
			out = append(out, f)
			break
		}
	}
	return out
}

// driverRemedies look at the driver's Pod on the node, and start it anew.
func driverRemedies(in In, driver string) []finding.Remedy {
	p := driverPod(in, driver)
	if p == nil {
		return []finding.Remedy{{Say: "find the driver's Pod on the node, and read what it says", Run: []string{
			"kubectl get pods -A -o wide --field-selector spec.nodeName=" + in.Pod.Spec.NodeName}}}
	}
	return []finding.Remedy{
		{Say: "read what the driver says", Run: []string{fmt.Sprintf("kubectl -n %s logs %s --all-containers --tail=50",
			p.Namespace, p.Name)}},
		{Say: "start it anew: calls that it is at work on are cut and made again; Pods that run keep their volumes",
			Run: []string{fmt.Sprintf("kubectl -n %s delete pod %s", p.Namespace, p.Name)}}}
}

// driverPod is the Pod on the node that mounts the driver's directory or names it in a command;
// nil when it is not known.
func driverPod(in In, driver string) *corev1.Pod {
	for _, p := range in.ClusterContext.podsOn(in.Pod.Spec.NodeName) {
		if p.UID == in.Pod.UID {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.HostPath != nil && slices.Contains(strings.Split(v.HostPath.Path, "/"), driver) {
				return p
			}
		}
		for _, c := range p.Spec.Containers {
			if strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), " "), driver) {
				return p
			}
		}
	}
	return nil
}

// driverSilent explains a Pod that waits for a CSI driver.
func driverSilent(in In) *Answer {
	found := driverFindings(in)
	if len(found) == 0 {
		return nil
	}
	f := found[0]
	a := &Answer{State: "ContainerCreating", Since: in.Pod.CreationTimestamp.Time, Cause: f.Message, Findings: found,
		Fixes: remedies(f.Remedies), Next: "the kubelet makes the call again with growing pauses"}
	if in.Pod.DeletionTimestamp != nil {
		a.State = "Terminating"
	}
	for _, c := range in.Drivers.Calls {
		if c.Driver == f.Object.Name && f.Code == "DriverSilent" {
			a.Since = c.Since
			break
		}
	}
	return a
}
