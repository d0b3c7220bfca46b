package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// togetherSet are fields of containers' securityContext that a level of Pod Security demands: a Pod
// is made only when all are set.
type togetherSet struct {
	names  []string                  // of containers, in the order of the words
	fields map[string]map[string]any // securityContext by container
	count  int                       // how many demands there are
	said   string                    // what is set beside, for the remedy's words
}

// notRoot is how a text of Pod Security about users begins.
const notRoot = "runAsNonRoot"

// userSaid says why a user is set beside runAsNonRoot.
const userSaid = "; user 1000 too, as an image that runs as root could not start otherwise (its files have to be " +
	"readable for that one; leave it out if the image has another user)"

// givenUser reports whether a container's user is not left to its image.
func givenUser(spec *corev1.PodSpec, name string) bool {
	if s := spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return true
	}
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == name && c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil
	})
}

// addUser sets a user for the containers that a text names and whose image alone says it.
func (t *togetherSet) addUser(words string, spec *corev1.PodSpec) {
	for _, name := range t.names {
		if strings.Contains(words, `"`+name+`"`) && !givenUser(spec, name) {
			t.fields[name]["runAsUser"], t.said = 1000, userSaid
		}
	}
}

// withUser sets a user beside runAsNonRoot in the remedy of one container whose image alone says
// it.
func withUser(list []Remedy, self Object, x place, field string) []Remedy {
	if len(list) != 1 || field != "securityContext."+notRoot || givenUser(x.spec, x.c.Name) {
		return list
	}
	return []Remedy{{Say: list[0].Say + userSaid,
		Run: []string{securityPatch(self, x, `{"runAsNonRoot":true,"runAsUser":1000}`)}}}
}

// add takes a field and its value in JSON for the containers that a text of Pod Security names.
func (t *togetherSet) add(words, field, value string) {
	path, below := strings.CutPrefix(field, "securityContext.")
	m := quotedNames.FindStringSubmatch(words)
	var v any
	if !below || m == nil || json.Unmarshal([]byte(value), &v) != nil {
		return
	}
	t.count++
	for part := range strings.SplitSeq(m[1], ",") {
		name := strings.Trim(part, `" `)
		if !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
		if t.fields == nil {
			t.fields = map[string]map[string]any{}
		}
		if t.fields[name] == nil {
			t.fields[name] = map[string]any{}
		}
		at := t.fields[name]
		words := strings.Split(path, ".")
		for _, w := range words[:len(words)-1] {
			next, ok := at[w].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[w] = next
			}
			at = next
		}
		at[words[len(words)-1]] = v
	}
}

// instead returns the findings with one remedy that sets everything at once in place of those that
// set a part, where there are several.
func (t *togetherSet) instead(self Object, spec *corev1.PodSpec, level string, list []Finding) []Finding {
	if t.count < 2 || self.Kind == "Pod" || self.Kind == "Job" || self.Kind == "CronJob" {
		return list
	}
	lists := map[string][]any{}
	for _, name := range t.names {
		in := "containers"
		if slices.ContainsFunc(spec.InitContainers, func(x corev1.Container) bool { return x.Name == name }) {
			in = "initContainers"
		}
		lists[in] = append(lists[in], map[string]any{"name": name, "securityContext": t.fields[name]})
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": lists}}})
	if err != nil {
		return list
	}
	all := Remedy{Say: fmt.Sprintf("set all that level %s demands of container %s at once: nothing less lets a Pod be "+
		"made", level, joined(t.names)) + t.said, Run: []string{kubectl(self, "patch", "--type=strategic -p "+
		shellquote.Quoted(string(raw)))}}
	for i := range list {
		if len(list[i].Remedies) > 0 && list[i].Object == self {
			list[i].Remedies = []Remedy{all}
		}
	}
	return list
}
