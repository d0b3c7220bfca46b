package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// node explains what keeps a node from being ready or schedulable.
func (s Subject) node(a *Answer, n *corev1.Node) {
	if c := nodeutil.NotReadyCondition(n); c != nil {
		a.State, a.Since = "not Ready", c.LastTransitionTime.Time
		a.Cause = fmt.Sprintf("Node %s is not ready (%s): %s.", n.Name, c.Reason, strings.TrimSuffix(c.Message, "."))
		if c.Status == corev1.ConditionUnknown && !c.LastHeartbeatTime.IsZero() {
			a.Cause += fmt.Sprintf(" Its kubelet was last heard of %s ago.", ago(s.Now.Sub(c.LastHeartbeatTime.Time)))
		}
		a.Cause += s.deletedForTaint(c)
		a.Next = "Pods that do not tolerate it for longer are deleted 300 s after it became so"
		a.Fixes = textFixes("start the kubelet on the node, or mend its runtime or its connection, as the text says")
	}
	var pressed []string
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type != corev1.NodeReady {
			pressed = append(pressed, fmt.Sprintf("%s (%s)", c.Type, strings.TrimSuffix(c.Message, ".")))
		}
	}
	switch {
	case a.State != "":
	case len(pressed) > 0:
		a.State, a.Cause = "under pressure", fmt.Sprintf("Node %s takes few new Pods or none: %s.", n.Name,
			joinList(pressed))
		a.Fixes = textFixes("free what is short on the node: end Pods, remove images or files")
	case n.Spec.Unschedulable:
		a.State, a.Cause = "cordoned",
			fmt.Sprintf("Node %s is cordoned: it is ready, and takes no new Pods until somebody uncordons it.", n.Name)
		a.Fixes = []Fix{commandFix("let it take Pods again", "kubectl uncordon "+n.Name)}
	case managedTaints(a, n):
	default:
		a.State, a.Cause = "Ready", fmt.Sprintf("Node %s is ready; nothing blocks it.", n.Name)
	}
	for _, t := range n.Spec.Taints {
		a.Facts = append(a.Facts, fmt.Sprintf("taint %s: only Pods that tolerate it", t.ToString()))
	}
	used := corev1.ResourceList{}
	count := 0
	for _, p := range s.Pods {
		if pod.IsTerminal(p) {
			continue
		}
		count++
		for name, q := range pod.Requests(p) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	cpu, memory, pods := n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceMemory],
		n.Status.Allocatable[corev1.ResourcePods]
	takenCPU, takenMemory := used[corev1.ResourceCPU], used[corev1.ResourceMemory]
	a.Facts = append(a.Facts, fmt.Sprintf("%d of %s Pods, %s of %s cpu and %s of %s memory requested", count,
		pods.String(), takenCPU.String(), cpu.String(), takenMemory.String(), memory.String()))
}

// managedTaints explains a ready node that a component's taint keeps Pods from; false where it has
// none.
func managedTaints(a *Answer, n *corev1.Node) bool {
	for i, t := range n.Spec.Taints {
		m, ok := whatif.ManagedTaintOf(t.Key)
		if !ok || t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		a.State = "tainted"
		a.Cause = fmt.Sprintf("Node %s is Ready and takes no Pods that do not tolerate its taint %s: %s.", n.Name,
			t.ToString(), m.Since)
		a.Fixes = textFixes(m.Fix)
		a.Findings = append(a.Findings, finding.Finding{Code: "Tainted", Severity: finding.Threat,
			Stage: finding.StageNode, Object: finding.Object{Kind: "Node", Name: n.Name},
			Field: fmt.Sprintf("spec.taints[%d]", i), Value: t.ToString(), Message: a.Cause,
			Remedies: asRemedies(a.Fixes)})
		return true
	}
	return false
}

// claim explains what a PersistentVolumeClaim waits for.
func (s Subject) claim(a *Answer, c *corev1.PersistentVolumeClaim) {
	a.State, a.Since = string(c.Status.Phase), c.CreationTimestamp.Time
	var users, running []string
	for _, p := range s.Pods {
		users = append(users, p.Name)
		if p.DeletionTimestamp == nil {
			running = append(running, p.Name)
		}
	}
	if c.DeletionTimestamp != nil {
		a.causedAt = []finding.Stage{finding.StageChange}
		a.State, a.Since = "Terminating", c.DeletionTimestamp.Time
		a.Cause = fmt.Sprintf("The claim is deleted as soon as its finalizers are gone: %s.", joinList(c.Finalizers))
		if len(users) > 0 {
			a.Cause += fmt.Sprintf(" Pods use it: %s.", joinList(users))
		}
		if len(running) > 0 {
			a.Fixes = []Fix{commandFix("end the Pods that use it",
				fmt.Sprintf("kubectl -n %s delete pod %s", s.Namespace, strings.Join(running, " ")))}
		}
		return
	}
	switch c.Status.Phase {
	case corev1.ClaimBound:
		a.Cause = fmt.Sprintf("The claim is bound to volume %s.", c.Spec.VolumeName)
		return
	case corev1.ClaimLost:
		a.Cause = fmt.Sprintf("The claim was bound to volume %s, which is not there any more: its data are lost to it.",
			c.Spec.VolumeName)
		a.Fixes = textFixes("bring the volume back under its name, or delete the claim and make it anew")
		return
	}
	s.unboundClaim(a, c, users)
	if e := s.newestEvent("ProvisioningFailed"); e != nil {
		a.Facts = append(a.Facts, "the provisioner's words: "+e.Message)
	}
	if len(users) > 0 {
		a.Facts = append(a.Facts, "Pods that wait for it: "+joinList(users))
	}
}

// unboundClaim explains what a claim without a volume waits for; users are the Pods that use it.
func (s Subject) unboundClaim(a *Answer, c *corev1.PersistentVolumeClaim, users []string) {
	size := c.Spec.Resources.Requests[corev1.ResourceStorage]
	class, named := s.class(c)
	switch {
	case c.Spec.VolumeName != "":
		s.namedVolume(a, c)
	case named != "" && class == nil && s.Objects.BoundByHand(c, named):
		a.causedAt = []finding.Stage{finding.StageReference, finding.StageVolume}
		a.Cause = fmt.Sprintf("The claim (%s) waits for a PersistentVolume of its class %s that fits: no StorageClass "+
			"is called so, so nobody makes one.", size.String(), named)
		a.Fixes = textFixes("make a PersistentVolume of that class that fits size and access modes")
	case named != "" && class == nil:
		a.Cause = fmt.Sprintf("The claim (%s) names the storage class %s, which does not exist.", size.String(), named)
		var have []string
		for _, k := range s.Classes {
			have = append(have, k.Name)
		}
		if near := nearestName(named, have); near != "" {
			a.Cause += fmt.Sprintf(" There is a class %s: perhaps that was meant.", near)
		} else if len(have) > 0 {
			a.Facts = append(a.Facts, "storage classes there are: "+joinList(have))
		}
		a.Fixes = textFixes("make the claim anew with a storage class that exists (a claim's class cannot be " +
			"changed), or create the class")
	case class == nil && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == "":
		a.classlessClaim(size.String())
	case class == nil:
		a.Cause = fmt.Sprintf("The claim (%s) names no storage class and there is no default one, so it waits for a "+
			"PersistentVolume that fits: none is free.", size.String())
		a.Fixes = textFixes("make a PersistentVolume that fits, or a storage class and mark it as the default")
	case class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		len(users) == 0:
		a.Cause = fmt.Sprintf("The claim (%s) waits for its first Pod: its storage class %s binds when a Pod that "+
			"uses it is placed (WaitForFirstConsumer).", size.String(), class.Name)
		a.Fixes = textFixes("start a Pod that uses the claim")
	default:
		a.causedAt = []finding.Stage{finding.StageReference, finding.StagePlacement, finding.StageVolume}
		a.Cause = fmt.Sprintf("The claim (%s) waits for the provisioner %s of its storage class %s to make a volume.",
			size.String(), class.Provisioner, class.Name)
		a.Fixes = textFixes("check that " + class.Provisioner + " runs, and what it says")
		if class.Provisioner == "kubernetes.io/no-provisioner" {
			a.Cause = fmt.Sprintf("The claim (%s) waits for a PersistentVolume of its storage class %s that fits: "+
				"nobody makes such volumes by themselves (no-provisioner).", size.String(), class.Name)
			a.Fixes = textFixes("make a PersistentVolume of that class that fits size, access modes and node")
		}
	}
}

// class returns the StorageClass that provisions the claim's volume, and the name in the claim.
func (s Subject) class(c *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, string) {
	named := ""
	if c.Spec.StorageClassName != nil {
		named = *c.Spec.StorageClassName
	}
	for _, k := range s.Classes {
		if k.Name == named ||
			c.Spec.StorageClassName == nil && k.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return k, k.Name
		}
	}
	return nil, named
}

// namedVolume explains a claim that names its volume itself and is not bound to it.
func (s Subject) namedVolume(a *Answer, c *corev1.PersistentVolumeClaim) {
	size := c.Spec.Resources.Requests[corev1.ResourceStorage]
	a.Cause = fmt.Sprintf("The claim (%s) names volume %s (spec.volumeName) and is not bound to it yet.", size.String(),
		c.Spec.VolumeName)
	if s.Objects == nil || !s.Objects.Read("PersistentVolume") {
		return
	}
	v, ok := s.Objects.Get(finding.Object{Kind: "PersistentVolume", Name: c.Spec.VolumeName}).(*corev1.PersistentVolume)
	switch {
	case !ok:
		a.Cause = fmt.Sprintf("The claim (%s) names volume %s (spec.volumeName), which does not exist.", size.String(),
			c.Spec.VolumeName)
		a.Fixes = textFixes(fmt.Sprintf("make PersistentVolume %s, or make the claim anew without spec.volumeName",
			c.Spec.VolumeName))
	case v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" && v.Spec.ClaimRef.UID != c.UID:
		r := v.Spec.ClaimRef
		a.Cause = fmt.Sprintf("The claim (%s) names volume %s (spec.volumeName), which is %s and of another claim: "+
			"its spec.claimRef is claim %s in namespace %s (uid %s).", size.String(), v.Name, v.Status.Phase, r.Name,
			r.Namespace,
			r.UID)
	}
}

// classlessClaim explains a claim that wants a volume without a class.
func (a *Answer) classlessClaim(size string) {
	a.Cause = fmt.Sprintf("The claim (%s) wants a PersistentVolume of no class (storageClassName \"\"), and none "+
		"that fits is free: no default class counts for it.", size)
	a.Fixes = textFixes("make a PersistentVolume without a class that fits, or make the claim anew without " +
		"storageClassName: the default class then makes its volume")
}

// deletedForTaint says what becomes of the Pods of a node that is not ready: each is deleted when
// it
// has tolerated the node's taint as long as it does.
func (s Subject) deletedForTaint(c *corev1.NodeCondition) string {
	key := corev1.TaintNodeUnreachable
	if c.Status == corev1.ConditionFalse {
		key = corev1.TaintNodeNotReady
	}
	var names []string
	for _, p := range s.Pods {
		stays := pod.IsTerminal(p) || pod.IsMirror(p) || slices.ContainsFunc(p.Spec.Tolerations,
			func(t corev1.Toleration) bool {
				return (t.Key == key || t.Key == "") && t.Effect != corev1.TaintEffectNoSchedule &&
					t.TolerationSeconds == nil
			})
		if !stays {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	shown := names[:min(len(names), 5)]
	text := joinList(shown)
	if len(names) > len(shown) {
		text = fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), len(names)-len(shown))
	}
	return fmt.Sprintf(" It has the taint %s (NoExecute): Pods that do not tolerate that for longer are evicted "+
		"300 s after it came (%s).", key, text)
}
