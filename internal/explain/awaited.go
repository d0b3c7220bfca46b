package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

// awaitedService adds what is wrong with a Service whose address stands in the command line or
// environment of a container that failed, unless the answer already knows a reason.
func awaitedService(a *Answer, in In, c container) {
	if in.NamespaceContext == nil || strings.Contains(a.Cause, "cannot resolve") {
		return
	}
	for _, d := range hostPortsIn(c.spec) {
		name, full, ok := serviceName(d.host, in.Ref.Namespace)
		if d.host == "localhost" {
			continue
		}
		why := &Answer{}
		if ok && dependencyFailed(why, in, serviceDependency{d, name, full, c}) {
			a.Cause += " " + why.Cause
			a.Findings = append(a.Findings, why.Findings...)
			a.Fixes = append(why.Fixes, a.Fixes...)
			return
		}
		if packetFails(a, in, c, d) {
			return
		}
	}
}

// afterObstacle tries what comes after the first obstacle: a Pod that is kept from the scheduler by
// a gate, or by a claim or group that is missing, is placed on a copy of the cluster without that.
func afterObstacle(in In, a *Answer) {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" || in.Pod.DeletionTimestamp != nil || len(a.refusals) > 0 ||
		in.ClusterContext == nil || in.ClusterContext.Plugins == nil || in.Pod.Status.NominatedNodeName != "" {
		return
	}
	next := in
	next.Pod = in.Pod.DeepCopy()
	next.Pod.Spec.SchedulingGates = nil
	if in.Objects != nil {
		next.Pod.Spec.Volumes = slices.DeleteFunc(next.Pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && in.Objects.Read("PersistentVolumeClaim") &&
				neverBound(in, v.PersistentVolumeClaim.ClaimName)
		})
	}
	if len(in.Pod.Spec.SchedulingGates) == 0 && len(next.Pod.Spec.Volumes) == len(in.Pod.Spec.Volumes) {
		return
	}
	placeAfterwards(next, a)
}

// neverBound reports whether a claim is not there, or is not bound and asks for a class that is not
// there.
func neverBound(in In, name string) bool {
	c, ok := in.Objects.Get(finding.Object{Kind: "PersistentVolumeClaim", Namespace: in.Ref.Namespace,
		Name: name}).(*corev1.PersistentVolumeClaim)
	if !ok {
		return true
	}
	class := c.Spec.StorageClassName
	return c.Spec.VolumeName == "" && c.Status.Phase != corev1.ClaimBound && class != nil && *class != "" &&
		in.Objects.Read("StorageClass") && in.Objects.Get(finding.Object{Kind: "StorageClass", Name: *class}) == nil
}

// placeAfterwards says where a Pod would go once its obstacle is gone, or why nowhere.
func placeAfterwards(next In, a *Answer) {
	w := next.whatifInput()
	w.Owner = whatif.OwnerOf(next.Pod)
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	found, refusals := whatif.FindRemedies(ctx, w)
	if len(refusals) == 0 {
		a.Facts = append(a.Facts, "afterwards a node fits: tried on a copy of the cluster")
		return
	}
	slices.SortStableFunc(refusals, compareRefusals)
	a.refusals = refusals
	a.Facts = append(a.Facts, "afterwards, tried on a copy of the cluster: "+noNodeText(refusals, next))
	for _, r := range found[:min(len(found), 3)] {
		a.Fixes = append(a.Fixes, Fix{Description: "and then " + r.Description, Run: r.Run})
	}
}

// afterRefusal tries the Pod of a template that the API server refuses: whether it would fit
// anywhere if it were made.
func (s Subject) afterRefusal(a *Answer, t *corev1.PodTemplateSpec) {
	if s.ClusterContext == nil || s.ClusterContext.Plugins == nil || t == nil || len(s.ClusterContext.Nodes) == 0 {
		return
	}
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.Namespace, p.Name = s.Namespace, s.Name
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	in := In{Now: s.Now, Pod: p, ClusterContext: s.ClusterContext, NamespaceContext: s.NamespaceContext,
		Ref: journal.Ref{Namespace: s.Namespace, Name: s.Name}}
	w := in.whatifInput()
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	_, refusals := whatif.FindRemedies(ctx, w)
	if len(refusals) == 0 {
		return
	}
	slices.SortStableFunc(refusals, compareRefusals)
	a.Facts = append(a.Facts, "if it were made, tried on a copy of the cluster: "+noNodeText(refusals, in))
	a.Findings = append(a.Findings, refusalFindings(in, refusals)...)
	for i := range a.Findings {
		if a.Findings[i].Object.Kind == "Pod" && a.Findings[i].Object.Name == s.Name {
			a.Findings[i].Object = s.object()
			a.Findings[i].Field = strings.Replace(a.Findings[i].Field, "spec.", "spec.template.spec.", 1)
		}
	}
}

// object names the subject, with its kind as manifests have it.
func (s Subject) object() finding.Object {
	kind := fmt.Sprintf("%T", s.Object)
	kind = kind[strings.LastIndex(kind, ".")+1:]
	if u, ok := s.Object.(*unstructured.Unstructured); ok {
		kind = u.GetKind()
	}
	return finding.Object{Kind: kind, Namespace: s.Namespace, Name: s.Name}
}

// general explains an object of which only its status and what it names say whether it is well.
func (s Subject) general(a *Answer, found []finding.Finding) {
	found = s.ownFirst(found)
	for i := range found {
		if found[i].Severity != finding.Note {
			a.State = stateWord(found[i]) + " (" + found[i].Code + ")"
			a.Cause, a.Fixes = found[i].Message, remedies(found[i].Remedies)
			return
		}
	}
	a.State = "well"
	a.Cause = fmt.Sprintf("Nothing is wrong with %s %s as far as its status, what it names and what names it say.",
		s.object().Kind, s.Name)
	for _, f := range found {
		if f.Code == "NamespaceTerminating" && f.Object == s.object() {
			a.State, a.Cause = "ending", f.Message
			continue
		}
		a.Facts = append(a.Facts, f.Message)
	}
}

// ownFirst puts a finding about the object itself before those that are as bad and of the same
// stage: it tells of them all.
func (s Subject) ownFirst(found []finding.Finding) []finding.Finding {
	out := slices.Clone(found)
	slices.SortStableFunc(out, func(a, b finding.Finding) int {
		other := func(f finding.Finding) int {
			if f.Object == s.object() {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Stage, b.Stage),
			cmp.Compare(other(a), other(b)))
	})
	return out
}
