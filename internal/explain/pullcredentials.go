package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// refused reports whether the registry wants other credentials than it got.
func (p imagePull) refused() bool {
	low := strings.ToLower(p.text)
	return slices.ContainsFunc([]string{"unauthorized", "authorization failed", "no basic auth", "forbidden", "denied"},
		func(w string) bool { return strings.Contains(low, w) })
}

// pullSecretRefused lets the finding about an image, whose registry refused the credentials of the
// Pod's pull secrets or got none of them, blame the first such secret.
func pullSecretRefused(in In, c container, f *finding.Finding) {
	x, _, ok := newest[journal.PullFailed](in, func(x journal.PullFailed) bool {
		return x.Image == c.spec.Image && x.Reason != "ImagePullBackOff"
	})
	if !ok || len(x.Secrets) == 0 || !(imagePull{text: x.Message}).refused() {
		return
	}
	for i, r := range in.Pod.Spec.ImagePullSecrets {
		at := slices.IndexFunc(x.Secrets, func(s journal.PullSecret) bool { return s.Name == r.Name })
		if at < 0 {
			continue
		}
		f.Field, f.Value = fmt.Sprintf("spec.imagePullSecrets[%d].name", i), r.Name
		f.Related = append(f.Related, finding.Object{Kind: "Secret", Namespace: in.Ref.Namespace, Name: r.Name})
		if hosts := x.Secrets[at].Hosts; len(hosts) > 0 {
			f.Numbers["hosts"] = strings.Join(hosts, ",")
		}
		return
	}
}
