package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/pod"
)

// editedPodFix returns a fix that changes the Pod's spec permanently: by its owner's template, or
// by recreating the Pod. change edits a copy.
func editedPodFix(in In, say string, change func(*corev1.PodSpec)) Fix {
	now := in.Pod.DeepCopy()
	change(&now.Spec)
	if pod.IsMirror(in.Pod) {
		return staticPodFix(in, say, now)
	}
	o := whatif.OwnerOf(in.Pod)
	if o.Kind == "" && in.Pod.DeletionTimestamp != nil {
		return Fix{Description: say} // to make it anew would wait for its end
	}
	if o.Kind == "job" {
		return commandFix(say,
			whatif.RecreateJob(in.Ref.Namespace, o.Name, `"template":{"spec":`+whatif.Patch(in.Pod, now)+`}`))
	}
	return Fix{Description: say, Run: whatif.Commands(in.Pod, now)}
}

// editedContainer is editedPodFix for one container.
func editedContainer(in In, name, say string, change func(*corev1.Container)) Fix {
	return editedPodFix(in, say, func(s *corev1.PodSpec) {
		for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				if list[i].Name == name {
					change(&list[i])
				}
			}
		}
	})
}

// op is one operation of a JSON patch.
type op struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// jsonPatchFix returns a fix with a JSON patch of the spec, for what a merge patch cannot express.
// Paths begin below spec.
func jsonPatchFix(in In, say string, ops ...op) Fix {
	p, o := in.Pod, whatif.OwnerOf(in.Pod)
	if pod.IsMirror(p) {
		return Fix{Description: say + staticWhere(p)}
	}
	below := "/spec"
	if o.Kind != "" {
		below = "/spec/template/spec"
	}
	for i := range ops {
		if c, ok := ops[i].Value.(*corev1.Container); ok && o.Kind != "" {
			only := corev1.PodSpec{Containers: []corev1.Container{*c}}
			whatif.WithoutInjected(&only)
			ops[i].Value = &only.Containers[0]
		}
		ops[i].Path = below + ops[i].Path
		if ops[i].From != "" {
			ops[i].From = below + ops[i].From
		}
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return Fix{Description: say}
	}
	if o.Kind == "job" {
		return commandFix(say, whatif.RecreateJobByJSON(p.Namespace, o.Name, string(patch)))
	}
	if o.Kind == "" {
		return commandFix(say,
			fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl patch --local -f - --type=json -p %s -o json | "+
				"kubectl replace --force -f -", p.Namespace, p.Name, shellquote.Quoted(string(patch))))
	}
	return commandFix(say, fmt.Sprintf("kubectl -n %s patch %s %s --type=json -p %s", p.Namespace, o.Kind, o.Name,
		shellquote.Quoted(string(patch))))
}

// commandTarget returns the object that a command must name to change the Pod or its template:
// pod/web, deployment/web.
func commandTarget(p *corev1.Pod) string {
	if o := whatif.OwnerOf(p); o.Kind != "" {
		return o.Kind + "/" + o.Name
	}
	return "pod/" + p.Name
}

// logsOf returns the fix that shows a container's logs.
func logsOf(in In, container string) Fix {
	return commandFix("see what it says", fmt.Sprintf("kubectl -n %s logs %s -c %s", in.Ref.Namespace, in.Ref.Name,
		container))
}

// staticWhere says, after a remedy, where a static Pod is changed: its object in the API is an
// image of a file of its node, and what is done to it changes nothing.
func staticWhere(p *corev1.Pod) string {
	return fmt.Sprintf(", in its manifest on node %s (it is a static Pod: its kubelet reads it from staticPodPath or "+
		"staticPodURL)", p.Spec.NodeName)
}

// staticPodFix is editedPodFix of a static Pod.
func staticPodFix(in In, say string, now *corev1.Pod) Fix {
	name := in.Pod.Name
	if n := in.Pod.Spec.NodeName; n != "" {
		name = strings.TrimSuffix(name, "-"+n)
	}
	return manifestFix(say+staticWhere(in.Pod), "the static pod/"+name, `{"spec":`+whatif.Patch(in.Pod, now)+"}")
}
