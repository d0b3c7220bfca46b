package whatif

import (
	"encoding/json"
	"fmt"
	"slices"
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
	if o.Kind != "" {
		was, now = withoutInjected(was), withoutInjected(now)
	}
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
		return []string{RecreateJob(was.Namespace, o.Name, `"template":{"spec":`+patch+`}`)}
	}
	cmd := fmt.Sprintf("kubectl -n %s patch %s %s --type=strategic -p %s", was.Namespace, o.Kind, o.Name,
		shellquote.Quoted(`{"spec":{"template":{"spec":`+patch+`}}}`))
	if o.Kind == "replicaset" || o.Kind == "statefulset" {
		return []string{cmd, fmt.Sprintf("kubectl -n %s delete pod %s", was.Namespace, was.Name)}
	}
	return []string{cmd}
}

// RecreateJob returns the command that makes a Job anew with a changed spec, since a Job's template
// is immutable. Generated selector and labels are removed.
func RecreateJob(namespace, name, spec string) string {
	return recreateJob(namespace, name, "strategic", `{"spec":{`+spec+`}}`)
}

// RecreateJobByJSON is RecreateJob with a JSON patch of the whole Job.
func RecreateJobByJSON(namespace, name, patch string) string {
	return recreateJob(namespace, name, "json", patch)
}

func recreateJob(namespace, name, patchType, patch string) string {
	drop := `{"spec":{"selector":null,"template":{"metadata":{"labels":{"controller-uid":null,` +
		`"batch.kubernetes.io/controller-uid":null}}}}}`
	return fmt.Sprintf("kubectl -n %s get job %s -o json | kubectl patch --local -f - --type=merge -p %s -o json | "+
		"kubectl patch --local -f - --type=%s -p %s -o json | kubectl replace --force -f -",
		namespace, name, shellquote.Quoted(drop), patchType, shellquote.Quoted(patch))
}

// injectedVolume begins the names of volumes that the API server adds to Pods for their tokens; no
// template has them.
const injectedVolume = "kube-api-access-"

// WithoutInjected takes out of a Pod's spec what the API server has put into it: of a template it
// would name a volume that is not there.
func WithoutInjected(s *v1.PodSpec) {
	added := func(name string) bool { return strings.HasPrefix(name, injectedVolume) }
	s.Volumes = slices.DeleteFunc(slices.Clone(s.Volumes), func(v v1.Volume) bool { return added(v.Name) })
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts = slices.DeleteFunc(slices.Clone(list[i].VolumeMounts),
				func(m v1.VolumeMount) bool { return added(m.Name) })
		}
	}
}

// withoutInjected is WithoutInjected of a copy of a Pod.
func withoutInjected(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	WithoutInjected(&p.Spec)
	return p
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
