package whatif

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// Owner is the object with the Pod's template. The zero value: the Pod has none.
type Owner struct {
	Kind string // deployment, statefulset, daemonset, replicaset, job
	Name string
}

// OwnerOf returns what to edit to change a Pod permanently: its controller, or the Deployment of
// its ReplicaSet, recognized by the pod-template-hash.
func OwnerOf(p *v1.Pod) Owner {
	for _, r := range p.OwnerReferences {
		if r.Controller == nil || !*r.Controller {
			continue
		}
		if hash := p.Labels["pod-template-hash"]; r.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(r.Name,
			"-"+hash) {
			return Owner{"deployment", strings.TrimSuffix(r.Name, "-"+hash)}
		}
		switch r.Kind {
		case "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
			return Owner{strings.ToLower(r.Kind), r.Name}
		}
	}
	return Owner{}
}

// podCommands returns the commands that change the Pod's spec from was to now: a patch of the
// owner's template, or recreation of the Pod.
func podCommands(o Owner, was, now *v1.Pod) []string {
	patch, err := specPatch(was, now)
	if err != nil {
		return nil
	}
	switch o.Kind {
	case "":
		return []string{
			fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl patch --local -f - --type=strategic -p %s -o "+
				"json | kubectl replace --force -f -",
				was.Namespace, was.Name, shellquote.Quoted(`{"spec":`+patch+`}`))}
	case "job":
		return nil // the template is immutable
	}
	cmd := fmt.Sprintf("kubectl -n %s patch %s %s --type=strategic -p %s", was.Namespace, o.Kind, o.Name,
		shellquote.Quoted(`{"spec":{"template":{"spec":`+patch+`}}}`))
	if o.Kind == "replicaset" || o.Kind == "statefulset" {
		return []string{cmd, fmt.Sprintf("kubectl -n %s delete pod %s", was.Namespace, was.Name)}
	}
	return []string{cmd}
}

// specPatch returns the strategic merge patch between two Pod specs.
func specPatch(was, now *v1.Pod) (string, error) {
	a, err := json.Marshal(was.Spec)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(now.Spec)
	if err != nil {
		return "", err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(a, b, v1.PodSpec{})
	if err != nil {
		return "", err
	}
	return string(dropOrderHints(patch)), nil
}

// dropOrderHints removes $setElementOrder directives from a patch: nothing is reordered here.
func dropOrderHints(patch []byte) []byte {
	var m map[string]any
	if json.Unmarshal(patch, &m) != nil {
		return patch
	}
	dropOrder(m)
	out, err := json.Marshal(m)
	if err != nil {
		return patch
	}
	return out
}

func dropOrder(v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, child := range x {
			if strings.HasPrefix(k, "$setElementOrder/") {
				delete(x, k)
				continue
			}
			dropOrder(child)
		}
	case []any:
		for _, child := range x {
			dropOrder(child)
		}
	}
}
