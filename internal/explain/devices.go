package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

var classMissing = regexp.MustCompile(`request (\S+): device class (\S+) does not exist`)

// claimsMissing explains a Pod that is not filtered node by node, because its ResourceClaims do not
// exist, are in use, or ask for a DeviceClass that does not exist.
func claimsMissing(in In) *Answer {
	p := in.Pod
	if p == nil || p.Spec.NodeName != "" || len(p.Spec.SchedulingGates) > 0 || len(p.Spec.ResourceClaims) == 0 {
		return nil
	}
	for _, e := range slices.Backward(in.Entries) {
		switch f := e.Fact.(type) {
		case journal.Queued:
			if f.Queue == "gated" && f.By == dynamicresources.Name {
				a := &Answer{State: "Pending", Since: e.At}
				return awaitedClaims(a, in)
			}
			if f.Ignored {
				continue
			}
		case journal.Ruled:
			if f.By != dynamicresources.Name {
				return nil
			}
			return refusedClaims(&Answer{State: "Pending", Since: e.At}, in, f.Message)
		}
	}
	return nil
}

// awaitedClaims names the claims that a Pod waits for before it enters the queue.
func awaitedClaims(a *Answer, in In) *Answer {
	p := in.Pod
	var missing []string
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		switch {
		case c.ResourceClaimTemplateName != nil:
			if claimNameOf(p, c.Name) != "" {
				missing = append(missing, fmt.Sprintf("%s (ResourceClaim %s)", c.Name, claimNameOf(p, c.Name)))
				continue
			}
			missing = append(missing, fmt.Sprintf("%s (from ResourceClaimTemplate %s, not made yet)", c.Name,
				*c.ResourceClaimTemplateName))
			a.Fixes = append(a.Fixes,
				commandFix("see that the template "+*c.ResourceClaimTemplateName+" exists: its claim is made at once "+
					"then", fmt.Sprintf("kubectl -n %s get resourceclaimtemplate %s", p.Namespace,
					*c.ResourceClaimTemplateName)))
		case c.ResourceClaimName != nil:
			missing = append(missing, fmt.Sprintf("%s (ResourceClaim %s)", c.Name, *c.ResourceClaimName))
			a.Fixes = append(a.Fixes,
				commandFix("see that the claim "+*c.ResourceClaimName+" exists and is not being deleted",
					fmt.Sprintf("kubectl -n %s get resourceclaim %s", p.Namespace, *c.ResourceClaimName)))
		}
	}
	a.Cause = fmt.Sprintf("The Pod is not scheduled before its resource claims are there: it waits for %s.",
		strings.Join(missing, ", "))
	for i := range in.Events {
		if in.Events[i].Reason == "FailedResourceClaimCreation" {
			a.Facts = append(a.Facts, "the claims' controller says: "+in.Events[i].Message)
		}
	}
	a.Next = "the Pod enters the queue as soon as all of them exist"
	return a
}

// claimNameOf returns the name of the claim that was created for an entry; empty if there is none.
func claimNameOf(p *corev1.Pod, entry string) string {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name == entry && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return ""
}

// refusedClaims explains DynamicResources' refusal of the claims themselves, whatever the node.
func refusedClaims(a *Answer, in In, message string) *Answer {
	a.Cause = "The Pod's resource claims cannot be allocated on any node: " + strings.TrimSuffix(message, ".") + "."
	if m := classMissing.FindStringSubmatch(message); m != nil {
		class := strings.TrimSuffix(m[2], ".")
		a.Cause = fmt.Sprintf("The Pod's resource claim asks, in request %s, for devices of class %s, and there is "+
			"no such DeviceClass.", m[1], class)
		a.Fixes = append(a.Fixes,
			commandFix("make the DeviceClass "+class+" (usually the driver's installation does), or name one that "+
				"exists in the claim", "kubectl get deviceclasses"))
		a.causedAt = []finding.Stage{finding.StageReference}
		a.Next = "the Pod is tried again when a DeviceClass comes"
		return a
	}
	a.Fixes = append(a.Fixes,
		commandFix("look at the claims", fmt.Sprintf("kubectl -n %s get resourceclaims", in.Pod.Namespace)))
	a.Next = "the Pod is tried again when one of its claims changes, or another claim gives devices back"
	return a
}
